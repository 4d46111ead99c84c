"""Child processes that commands start, and what they need to begin."""
