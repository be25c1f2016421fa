"""Finds the first difference between two engines, and shows when each unit worked."""
