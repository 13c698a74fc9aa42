"""What was done, kept."""
