"""Pages and tables about a compiled or simulated model."""
