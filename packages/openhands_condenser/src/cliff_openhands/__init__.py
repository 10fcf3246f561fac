"""The OpenHands condenser. Not built yet."""
