"""Models that are built here: small layers, operators, graphs and typical networks."""
