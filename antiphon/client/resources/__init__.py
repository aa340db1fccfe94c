"""The operations of a client on responses, conversations and models."""
