"""What a client can do with responses, conversations and models."""
