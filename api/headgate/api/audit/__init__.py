"""The audit: who changed what, and rollback to an earlier revision.

Its rows are written by the store, with each change.
"""
