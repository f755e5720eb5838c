"""Real agent programs, driven against a scripted model on this machine; `make test-agents` runs these."""
