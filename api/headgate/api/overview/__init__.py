"""All limits at a glance, joined with their use: filtered, sorted, paged.

One group in depth is in `live/` and `history/`.
"""
