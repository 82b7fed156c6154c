"""Exercises: functions to write oneself, each checked against a slow float64 oracle."""
