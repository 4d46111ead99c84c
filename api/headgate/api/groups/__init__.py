"""Resource groups: what is stored, and its REST routes."""
