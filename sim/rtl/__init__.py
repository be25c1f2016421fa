"""The RTL in Verilator, with its memory and its bus, as an engine."""
