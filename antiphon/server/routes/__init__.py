"""One module a group of routes: each reads a request and hands it to the engine or the store."""
