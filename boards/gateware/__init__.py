"""A board's hardware around the accelerator: clocks, reset, memory, the device's end of the link."""
