"""The embedded bus: ZeroMQ's sockets, its proxy and its CURVE keys."""
