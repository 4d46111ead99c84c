"""Tenants and their namespaces: names that something can be attached to.

Their limits are groups and policies.
"""
