"""The real coordinator, bucket and codec under a simulated clock, bus and faults.

Everything is a function of the scenario and the seed: the same bytes come out of
the same file.
"""
