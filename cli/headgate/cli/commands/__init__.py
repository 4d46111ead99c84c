"""One module for each command of `headgate` that talks to the API or a bus.

Shared options, output and the REST client have folders of their own.
"""
