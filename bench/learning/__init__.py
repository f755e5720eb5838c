"""What is kept of what was said, and what is known already."""
