"""Records, settings, text handling and operating-system helpers that every other package builds on."""
