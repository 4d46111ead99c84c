"""Authorisation: tokens, roles, a tenant's view, and the guard of all routes.

Rules that depend on stored state, such as who attached a subject, are with that state.
"""
