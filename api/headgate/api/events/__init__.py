"""Server-sent events for pages that are open.

What they show is computed in `overview/` and `live/`.
"""
