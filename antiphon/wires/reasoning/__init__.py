"""Reasoning as other wires carry it: between tags in the text, or in fields that the server wants back."""
