"""Connections before they carry a request: how many, for how long, and their log lines.

What a request may ask is decided in `http/` and `rights/`.
"""
