"""Rewrites of the model's graph before it is lowered: patterns and constant folding."""
