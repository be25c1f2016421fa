"""Pages of docs/reference that are generated: operators and what the units do for each."""
