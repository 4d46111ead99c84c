"""The grid of regimes: which cells there are, what each is held to, and its page."""
