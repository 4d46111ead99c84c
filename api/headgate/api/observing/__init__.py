"""Watching the cluster: reports sampled once a second, and all that is made of them.

What one picture holds is in `live/`, what was seen before it in `history/`.
"""
