"""What this process's callers want, and what of it was told.

Nothing about other agents' rows.
"""
