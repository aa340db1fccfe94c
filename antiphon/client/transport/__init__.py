"""How the client reaches a server: HTTP, retries, WebSocket, or a gateway in the same process."""
