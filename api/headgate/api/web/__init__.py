"""The web page at `/`: static files, shipped with the package."""
