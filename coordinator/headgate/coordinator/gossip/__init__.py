"""What agents tell each other: when, which rows, and what becomes of a report.

The formulas that rows feed are in `ledger` and `allocation`.
"""
