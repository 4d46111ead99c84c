"""Resource groups and their limits, and the REST routes for them.

Who belongs to a group is in `attachments/`.
"""
