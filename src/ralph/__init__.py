"""Ralph runs a coding agent in a loop and remembers what every iteration taught."""

__version__ = "0.1.0"
