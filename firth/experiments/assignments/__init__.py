"""Assignments: exercises and competitions for a class, handed out, and graded with hidden inputs."""
