"""What a service developer uses: limiters, handles, reservations, queues.

`enforcement` decides which buckets a subject has.
"""
