"""Seeded random graphs: many operators, branches, states, images of any size."""
