"""Attachments: which group a subject belongs to, and who may change that.

The limits themselves are in `groups/`.
"""
