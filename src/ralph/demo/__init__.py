"""The demo: a small project built twice by the loop, without and with memory."""
