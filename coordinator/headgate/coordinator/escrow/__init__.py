"""Strict limits: permits that agents own, give to each other, and reclaim.

Nothing here is used by groups that are not strict.
"""
