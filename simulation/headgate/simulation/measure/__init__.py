"""The figures of a run, each against one central bucket fed the same arrivals."""
