"""What operators had decided, revision by revision, as frames to join."""
