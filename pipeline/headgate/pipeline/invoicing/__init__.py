"""Price plans, and what a month's usage costs by them; only `rows` uses Spark."""
