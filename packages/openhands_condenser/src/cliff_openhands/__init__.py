"""The OpenHands condenser. Not built yet: issue 4 tracks it."""
