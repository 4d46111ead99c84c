"""The sparse table of ledgers and agents, as columns.

This folder knows where rows stand; what they mean is computed elsewhere.
"""
