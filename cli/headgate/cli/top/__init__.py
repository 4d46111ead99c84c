"""`headgate top`: usage against limits, live in a terminal.

`screen` defines what each key does, `feed` polls the API on its own thread, `drawing`
renders both, `terminal` handles keys, sizes and signals, and `command` connects them.
Only the last two know that there is a terminal.
"""
