"""HTTP over WSGI, Django, `limits`, and clients that come back when they are told to.

What all of them say to a refused request stands in `answers`.
"""
