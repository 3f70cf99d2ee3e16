"""There are no other devices."""
