"""Programs that take a client through every play; each is told the server by two environment variables."""
