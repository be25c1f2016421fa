"""The serial machine: the same commands on one small engine, for FPGAs without room for five units.

`program*.py` is its microprogram, written with `assembler.py`. `engine.py` runs it at two cycles per instruction. A
configuration's commands have the same results, bit for bit, as on the parallel machine; only their timing differs.

    host registers (block RAM) -- engine: program (block RAM), 256 registers (block RAM), adder, shifter, multiplier
                                     |        four sums of products of bytes
                                     |-- 64 KiB: scratchpad in the lower half; in the upper registers of the units,
                                     |           tables, vector registers, accumulators
                                     '-- word port to system memory

`design = "serial"` in a configuration asks for it.
"""
