"""The configuration that agents follow: whole, as changes, or as it once was.

Waking those who wait for it is in `watch.py`.
"""
