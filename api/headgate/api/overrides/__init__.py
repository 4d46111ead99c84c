"""Overrides: a group's limits for a while, and then as they were."""
