"""Images and files as wires carry them: data URLs, and images that a model made."""
