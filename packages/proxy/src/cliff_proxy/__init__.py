"""The proxy for agents that cannot be extended. Not built yet: issue 6 tracks it."""
