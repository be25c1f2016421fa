"""Load and store units: N-dimensional runs between memory and scratchpad."""
