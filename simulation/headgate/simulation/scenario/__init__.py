"""Scenario files: their contents, how they are read, and their targets."""
