"""Workers that take tasks from a queue."""
