"""One lane of the vector unit: arithmetic, requantization, tables, activations."""
