"""One package a provider: each turns a Turn into its own body, and its own stream into deltas."""
