"""What commands print: tables, plans, previews, JSON."""
