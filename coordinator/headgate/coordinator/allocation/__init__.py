"""Who gets how much: max-min shares, ceilings, reserves, groups inside groups.

Pure functions of levels and demand; nothing is sent or remembered here.
"""
