"""What a service developer holds: limiters, handles, reservations, queues.

Which buckets a subject has is decided in `enforcement`.
"""
