"""Limits where requests come in and go out: one module for each framework.

Each imports its framework when it is used, so none of them is a dependency.
"""
