"""Price plans, and what they make of a month's usage; Spark is in `rows` alone."""
