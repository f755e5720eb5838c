"""One file of tests for each module of billing."""
