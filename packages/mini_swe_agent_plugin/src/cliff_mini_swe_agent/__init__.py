"""The mini-swe-agent plugin. Not built yet: issue 3 tracks it."""
