"""Summaries for people: text, pictures, a page of HTML."""
