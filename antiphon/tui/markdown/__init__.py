"""Lays out growing Markdown as lines for a terminal, each finished part only once."""
