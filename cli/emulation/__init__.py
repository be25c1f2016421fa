"""A simulated board with a serial port, and a simulated soft core."""
