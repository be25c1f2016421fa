"""A soft core next to the accelerator, with flash, UART and memory map."""
