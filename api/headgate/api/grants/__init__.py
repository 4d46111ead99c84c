"""Grants: which agent is the first to use a strict limit, so that it starts full."""
