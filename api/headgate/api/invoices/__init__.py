"""Invoices that the pipeline wrote as files, served to callers who may see them."""
