"""The Terminus-2 plugin. Not built yet."""
