"""The snapshot that agents follow, and the watch that wakes them."""
