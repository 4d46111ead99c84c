"""When agents report, which rows a report carries, and how many reports are entered.

The formulas that rows feed are in `ledger` and `allocation`.
"""
