"""Ralph runs coding agents in a loop and remembers what they learn."""

__version__ = "0.1.0"
