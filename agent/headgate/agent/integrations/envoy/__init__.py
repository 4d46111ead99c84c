"""Services that Envoy, nginx and Traefik ask: RLS, RLQS, `/json`, forward-auth.

The server of `headgate envoy` is made of these; what they decide comes from an agent.
"""
