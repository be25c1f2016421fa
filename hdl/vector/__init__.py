"""The vector unit: programs over accumulators and scratchpad, lanes side by side."""
