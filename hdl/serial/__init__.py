"""The serial machine."""
