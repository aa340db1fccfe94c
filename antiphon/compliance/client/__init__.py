"""Client mode: a server that sends every legal and every odd stream, and judges the client that connects."""
