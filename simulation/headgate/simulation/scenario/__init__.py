"""Scenario files: what they may say, how they are read, what each is held to."""
