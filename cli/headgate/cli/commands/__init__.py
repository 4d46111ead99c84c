"""One module for each command of `headgate` that talks to the API or a bus.

Options, output and the REST client that they share have folders of their own.
"""
