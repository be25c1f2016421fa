"""From operators of a model to layers, one file per family of operators."""
