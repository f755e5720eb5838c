"""Whether what was once decided reaches the prompt, in its latest form; without a language model."""
