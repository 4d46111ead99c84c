"""The live view: what agents report now, sampled once a second from the bus.

Nothing in it is on the path of a change.
"""
