"""The link between a host and a board: protocol, UART, bridge to memory and registers, host side."""
