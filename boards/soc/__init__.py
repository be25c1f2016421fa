"""A soft core beside the accelerator, with flash, UART and memory map."""
