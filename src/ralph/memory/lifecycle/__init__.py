"""Rules of a memory's life: confidence, duplicates, staleness, staging, lift. Pure functions."""
