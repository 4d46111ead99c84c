"""Following the configuration: the API's snapshot, the copy on disk, policies.

It only reads and parses; `enforcement` applies the result to buckets.
"""
