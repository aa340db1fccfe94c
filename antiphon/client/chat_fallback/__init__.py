"""The same request to `/chat/completions`, for servers that have no `/responses`."""
