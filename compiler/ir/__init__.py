"""The graph of layers with integer constants, and the geometry for all later stages."""
