"""What sets the ceilings in a run: the real coordinator or a strategy to compare."""
