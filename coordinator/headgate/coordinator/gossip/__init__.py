"""When agents report, which rows a report carries, and what its receivers do with it.

The formulas that rows feed are in `ledger` and `allocation`.
"""
