"""What this process's callers want, and how much of that was reported.

Other agents' rows do not belong here.
"""
