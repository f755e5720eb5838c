"""The agent loop: claim, recall, prompt, run the agent, read sigils, verify, capture, settle."""
