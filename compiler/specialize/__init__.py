"""Passes over the lowered graph that fit its layers to the machine."""
