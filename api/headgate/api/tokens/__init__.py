"""Managing tokens: over REST, and on the server's own machine.

What a token may do is decided in `rights/`.
"""
