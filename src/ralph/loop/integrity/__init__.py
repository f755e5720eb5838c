"""Gate integrity: what decides whether work is done must not be changed by the work itself."""
