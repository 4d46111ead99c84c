"""Who may do what: tokens, roles, what a tenant sees, and the guard of all routes.

Rules that depend on stored state, such as who attached it, are with that state.
"""
