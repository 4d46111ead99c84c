"""Services that Envoy, nginx and Traefik ask: RLS, RLQS, `/json`, forward-auth.

The server of `headgate envoy` consists of these; an agent decides for them.
"""
