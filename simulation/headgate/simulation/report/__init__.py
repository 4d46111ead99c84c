"""Results for people: tables, pictures, the accuracy page."""
