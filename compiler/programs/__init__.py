"""Micro-programs of the vector unit."""
