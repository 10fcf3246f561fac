"""The Terminus-2 plugin. Not built yet: issue 5 tracks it."""
