"""What is shown for prompts whose memories are labeled."""
