"""Names, quantities and refusals that every domain shares; no HTTP, no store."""
