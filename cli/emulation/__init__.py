"""A simulated board behind a serial port, and a simulated soft core."""
