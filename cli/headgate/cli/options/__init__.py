"""Options that commands share, and how values are written on the command line."""
