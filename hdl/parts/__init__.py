"""Generic parts: delays, queues, memories, multiplexers."""
