"""HTTP over WSGI, Django, `limits`, and clients that retry when the server says so.

`answers` holds what all of them answer to a refused request.
"""
