"""The wire: what agents say to each other, and the code generated from it.

``report_pb2`` comes from ``report.proto`` by ``tools/generate_proto.py`` and is
committed.  In the agent only ``headgate.agent.wire.codec`` imports it.
"""
