"""The web page at `/`: static files, shipped with the package.

It is an ordinary client of `/api/v1`.
"""
