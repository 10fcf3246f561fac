"""The tests of the test kit: what it says must be what the real APIs say."""

from kit.fixtures import model_server

__all__ = ["model_server"]
