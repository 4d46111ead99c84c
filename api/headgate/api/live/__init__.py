"""The live view: what the bus says is going on now."""
