"""The grid of regimes: its cells, the goals that they are held to, and its page."""
