"""Where results are stored (Delta tables at a URI), and the contract of each table."""
