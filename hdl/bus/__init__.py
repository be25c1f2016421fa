"""AXI4 and what splits and buffers its bursts."""
