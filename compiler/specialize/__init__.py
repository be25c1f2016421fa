"""From layers to layers that fit the machine better: passes over the lowered graph."""
