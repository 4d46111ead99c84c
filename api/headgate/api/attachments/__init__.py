"""Attachments: which group a subject belongs to."""
