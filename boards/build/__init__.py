"""From a board to an image: top module, DRAM core, synthesis, place and route, figures."""
