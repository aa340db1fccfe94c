"""Holds answers to JSON schemas: within limits of time and memory, for the gateway and for producers."""
