"""What is computed from usage: violations, fairness, bills, recommendations."""
