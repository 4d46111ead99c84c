"""`headgate top`: groups by use against limit, live in a terminal.

`screen` says what a key does, `feed` asks the API on a thread of its own, `drawing`
makes a picture of both, `terminal` knows keys, sizes and signals; `command` joins
them.  Only the last two know that there is a terminal.
"""
