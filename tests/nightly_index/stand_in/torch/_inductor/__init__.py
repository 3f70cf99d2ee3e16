"""What a compile leaves behind."""
