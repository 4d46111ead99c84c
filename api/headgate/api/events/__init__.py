"""Server-sent events: what changed, pushed to who looks."""
