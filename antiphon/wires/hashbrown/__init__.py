"""Hashbrown's messages and its length-prefixed frames."""
