"""Authorisation: tokens, roles, a tenant's view, and the guard of all routes.

Rules that depend on stored state, such as who attached it, are with that state.
"""
