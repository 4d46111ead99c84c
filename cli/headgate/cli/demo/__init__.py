"""One quota over five processes with real parts, measured at the callers.

`headgate.cli.demo.script` defines what happens when, `caller` is one of the five
processes, `stage` runs them all, and `replay` and `summary` judge their logs.
"""
