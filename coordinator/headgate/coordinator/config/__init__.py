"""What a coordinator is given: the configuration, the limits in it, constants.

Nothing here depends on ledgers, demand or other agents.
"""
