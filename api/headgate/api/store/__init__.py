"""The store: tables, migrations, and transactions with a revision and an audit row.

No rule about what may be stored: those are in each domain's service.
"""

from headgate.api.store.transactions import Author, Change, Document, Store

__all__ = ["Author", "Change", "Document", "Store"]
