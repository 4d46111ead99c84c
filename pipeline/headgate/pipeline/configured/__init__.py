"""What operators had decided, revision by revision, as tables to join."""
