"""The one token bucket of a limit, replayed from everyone's counters.

How a level moves; who may spend it is `allocation`'s matter.
"""
