"""Bulk apply: a file of what shall be, the plan to get there, and the doing."""
