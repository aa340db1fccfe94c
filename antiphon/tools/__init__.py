"""Hosted tools: what the gateway itself runs for a model, one file or folder a tool behind one protocol."""
