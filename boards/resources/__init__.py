"""What a configuration takes of an FPGA: memories and multipliers by rule, LUTs from recorded syntheses by unit."""
