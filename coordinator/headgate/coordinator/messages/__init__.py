"""What comes into a coordinator and what goes out: events, effects and reports.

Plain frozen values; the agent decides how reports are written as bytes.
"""
