"""The transports of the client: HTTP, retries, WebSocket, or a gateway in the same process."""
