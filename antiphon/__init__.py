"""Antiphon: one program that speaks Open Responses on one side and every model on the other."""

__version__ = "0.1.0"

__all__ = ["__version__"]
