"""The same run in the words of other protocols. Bridges know events and requests, and no provider."""
