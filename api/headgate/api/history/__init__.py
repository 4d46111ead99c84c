"""The last thirty minutes of each limit's use, in bounded memory.

Nothing of it is stored; long-term usage is the pipeline's.
"""
