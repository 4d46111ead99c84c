"""What a coordinator knows, as values for people, metrics and the live view.

Reads everything, changes nothing.
"""
