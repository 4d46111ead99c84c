"""The administration of a cluster over REST: what an operator decides, typed.

Everything here waits for the API, so none of it belongs on the request path.
"""
