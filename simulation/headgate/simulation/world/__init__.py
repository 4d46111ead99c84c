"""The simulated world: clock, bus, processes, faults, arrivals."""
