"""Gateways and clients of language models: tokens are known only afterwards."""
