"""The array unit: systolic grid, sequencer, weights, feeds and accumulators."""
