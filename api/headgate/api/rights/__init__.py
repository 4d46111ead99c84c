"""Who may do what: bearer tokens, roles, and the guard before all routes."""
