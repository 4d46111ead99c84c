"""The sparse table of ledgers and agents, as columns.

Only where rows stand; what they mean is computed elsewhere.
"""
