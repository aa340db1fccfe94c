"""The embedded model: its weights in the user's cache, the child process that runs it, how it calls tools."""
