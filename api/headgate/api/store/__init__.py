"""The store: tables, transactions with revision and audit, migrations."""

from headgate.api.store.transactions import Author, Change, Document, Store

__all__ = ["Author", "Change", "Document", "Store"]
