"""Invoices that the pipeline wrote as files, handed out to who may see them."""
