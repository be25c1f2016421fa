"""Builds a board's bitstream: top module, DRAM core, synthesis, place and route, figures."""
