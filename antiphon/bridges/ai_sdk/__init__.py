"""The Vercel AI SDK: its chat requests, its messages, and its two stream protocols."""
