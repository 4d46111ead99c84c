"""What all routes share of HTTP: dependencies, problems, limits on bodies."""
