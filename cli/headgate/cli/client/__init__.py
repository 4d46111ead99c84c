"""The REST API as the command line sees it.

Nothing here prints.
"""
