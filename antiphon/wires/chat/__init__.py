"""The answers of `/chat/completions`, as the gateway and the client read them."""
