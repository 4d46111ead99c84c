"""Following the configuration: the API's snapshot, the copy on disk, policies.

Reads and parses; what it means for buckets is `enforcement`'s matter.
"""
