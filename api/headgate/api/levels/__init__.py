"""Levels of long limits, stored: an hourly quota survives a restart of all."""
