"""HTTP parts shared by all routes: dependencies, problems, bodies, headers, origins.

No domain logic, and no socket: those are in `sockets/`.
"""
