"""What stays in the scratchpad, what is cut into rectangles and strips, and where everything lies."""
