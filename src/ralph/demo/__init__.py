"""The demonstration: the same small project built twice by the loop, without and with memory."""
