"""The figures of a run, compared with one central bucket on the same arrivals."""
