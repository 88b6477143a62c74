"""What an examination finds."""
