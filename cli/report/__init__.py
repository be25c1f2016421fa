"""The pages and tables that a person reads of a compiled or simulated model."""
