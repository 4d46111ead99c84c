"""Preview: what a change would do to those who use the group now."""
