"""The loop: claim, recall, prompt, agent, sigils, verify, capture, settle, next."""
