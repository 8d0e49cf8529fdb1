"""The command line: one thin file a verb, no logic."""

from lt2theory.cli.app import main as main

__all__ = ["main"]
