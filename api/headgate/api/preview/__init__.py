"""The effect of a change on the present users of a group.

Nothing here is ever stored.
"""
