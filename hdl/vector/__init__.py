"""The vector unit: runs micro-programs over accumulators and scratchpad on parallel lanes."""
