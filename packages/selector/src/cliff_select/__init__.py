"""The selector of the best of k rollouts. Not built yet."""
