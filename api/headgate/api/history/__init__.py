"""Thirty minutes of what each limit's use was, in bounded memory."""
