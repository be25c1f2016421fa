"""From plans to operations of the units, one file per kind of layer."""
