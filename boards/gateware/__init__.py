"""What stands around the accelerator on a board: clocks, reset, memory, the device's end of the link."""
