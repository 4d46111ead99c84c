"""One quota held over five processes on real parts, measured at the callers.

`headgate.cli.demo.script` says what happens when, `caller` is one of the five
processes, `stage` runs them all, `replay` and `summary` judge what they logged.
"""
