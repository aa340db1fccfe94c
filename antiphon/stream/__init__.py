"""Streams without I/O: deltas to events, events to responses, the rules of a stream, and its encodings."""
