"""Residency, rectangles and strips, and addresses in the scratchpad."""
