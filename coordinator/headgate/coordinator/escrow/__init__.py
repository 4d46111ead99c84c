"""Strict limits: permits that agents own, give to each other, and reclaim.

Slots in flight use the same registers; groups with neither use nothing here.
"""
