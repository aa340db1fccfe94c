"""What an image is, by its first bytes."""
