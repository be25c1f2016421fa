"""The serial machine: the same commands on one small engine, for FPGAs that have no room for five units.

`program*.py` is its microprogram, written with `assembler.py`; `engine.py` runs it, two cycles an instruction. What a
configuration's commands mean is the same to the bit as on the parallel machine; how long they take is not.

    host registers (block RAM) -- engine: program (block RAM), 256 registers (block RAM), adder, shifter, multiplier
                                     |        four sums of products of bytes
                                     |-- 64 KiB: scratchpad in the lower half; in the upper registers of the units,
                                     |           tables, vector registers, accumulators
                                     '-- word port to system memory

`design = "serial"` in a configuration asks for it.
"""
