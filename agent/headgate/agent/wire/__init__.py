"""Reports as bytes: columns, checksums and signatures.

The only place that knows protobuf.
"""
