"""What comes into a coordinator and what goes out: events, effects and reports.

Plain frozen values; how reports are written as bytes is the agent's matter.
"""
