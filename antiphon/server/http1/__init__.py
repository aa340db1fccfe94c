"""Our own HTTP/1.1 server: connections, exchanges, and the WebSocket handshake."""
