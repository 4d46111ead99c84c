"""Names, quantities, errors and preconditions that every domain shares.

No HTTP, no store, no rule of one domain alone.
"""
