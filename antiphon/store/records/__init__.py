"""What is kept beside responses, and their removal: operations that are written once for both databases."""
