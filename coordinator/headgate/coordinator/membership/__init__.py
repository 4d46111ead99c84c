"""Which agents there are: lives, silence, failure detection, bootstrap.

What silence means for quotas is decided in `allocation`.
"""
