"""Tenants and their namespaces: names that something can be attached to."""
