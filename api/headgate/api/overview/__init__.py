"""Groups at a glance: every limit, joined with what agents do to it now."""
