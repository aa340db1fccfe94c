"""Wire formats that the client and the gateway both speak, below both of them."""
