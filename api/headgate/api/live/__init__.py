"""One picture of the cluster: who lives, what agents report now, and how it is shown.

Nothing in it is on the path of a change.
"""
