"""Resource groups and their limits, and the REST routes for them.

Which subjects belong to a group is decided in `attachments/`.
"""
