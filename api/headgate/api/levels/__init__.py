"""Stored levels of limits with a long period, so that they survive a restart.

Levels of shorter limits are never stored.
"""
