"""The cost model: when each operation begins and ends on its unit, and the report per layer."""
