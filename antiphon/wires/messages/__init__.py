"""The Messages API, as its door and the providers that ask it both need it."""
