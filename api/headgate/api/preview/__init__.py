"""What a change would do to those who use a group now.

Nothing here is ever stored.
"""
