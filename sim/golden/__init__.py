"""The golden model: every operator in integers, equal to LiteRT's reference kernels."""
