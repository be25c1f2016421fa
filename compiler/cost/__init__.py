"""The cost model: begin and end of each operation on its unit, and the report per layer."""
