"""The token bucket and chains of them: lock-free, compilable, without I/O.

No thread, no clock, no bus: numbers and a time come in, a decision goes out.
"""
