"""What all routes share of HTTP: dependencies, problems, bodies, headers, origins.

No domain logic, and no socket: those are in `sockets/`.
"""
