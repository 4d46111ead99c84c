"""What a coordinator is told: the configuration, the limits it holds, constants.

Nothing here depends on ledgers, demand or other agents.
"""
