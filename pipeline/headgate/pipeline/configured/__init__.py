"""The limits that were configured, revision by revision, as frames to join."""
