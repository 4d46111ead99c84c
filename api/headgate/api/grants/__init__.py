"""Grants: who is the first to use a strict limit, and what is left of other limits."""
