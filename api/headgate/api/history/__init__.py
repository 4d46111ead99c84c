"""The last thirty minutes of each limit's use, in bounded memory.

None of it is stored; long-term usage belongs to the pipeline.
"""
