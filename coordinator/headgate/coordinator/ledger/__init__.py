"""The one token bucket of a limit, replayed from everyone's counters.

It says how a level moves; who may spend it is decided in `allocation`.
"""
