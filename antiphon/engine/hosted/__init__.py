"""Hosted tools in a response: which of them the gateway runs, the loop that does, and their history."""
