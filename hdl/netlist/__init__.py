"""From RTLIL, as Amaranth writes it, to Verilog that people read."""
