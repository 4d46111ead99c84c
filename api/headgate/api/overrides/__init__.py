"""Temporary changes of limits, which end by themselves.

Permanent ones are in `groups/`.
"""
