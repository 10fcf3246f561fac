"""The proxy for agents that cannot be extended. Not built yet."""
