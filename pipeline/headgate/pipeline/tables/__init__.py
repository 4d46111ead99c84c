"""Where results are stored, and the contract of each table."""
