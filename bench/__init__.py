"""Benchmarks: programs that print figures, never tests."""
