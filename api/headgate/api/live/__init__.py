"""One picture of the cluster: who is alive, what agents report, and how it is shown.

Nothing in it is on the path of a change.
"""
