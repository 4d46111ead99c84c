"""From cumulative counters to usage per window, one agent's lives at a time.

Plain Python without Spark sessions.
"""
