"""FPGA resources of a configuration: memories and multipliers by rule, LUTs from recorded syntheses by unit."""
