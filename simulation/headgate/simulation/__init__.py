"""The real coordinator, bucket and codec under a simulated clock, bus and faults.

A run depends on nothing but the scenario and the seed, so the same file gives the
same bytes of output.
"""
