"""The audit: who changed what, and how to go back."""
