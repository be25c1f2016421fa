"""The graph of layers with integer constants, and the geometry that all later stages share."""
