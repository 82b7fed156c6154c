"""The command line: one file per verb. torch is imported only when a verb that needs it runs."""

from firth.cli.app import main

__all__ = ["main"]
