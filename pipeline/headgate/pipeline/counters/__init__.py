"""From cumulative counters to usage per window: one agent's lives, replayed.

Plain Python without Spark sessions.
"""
