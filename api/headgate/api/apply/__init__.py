"""Bulk apply: the file of quotas, its plan, and bringing the store into that state.

How one kind of thing is stored belongs to its own folder.
"""
