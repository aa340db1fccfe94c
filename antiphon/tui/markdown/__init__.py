"""Markdown that grows: text in, lines for a terminal out, and what is finished is laid out once."""
