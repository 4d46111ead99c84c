"""Strict groups: rights to a quota that are owned, given away and reclaimed.

Nothing here is used by groups that are not strict.
"""
