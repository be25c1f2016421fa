"""What the hardware, the compiler, the simulator and the firmware must agree on, said once.

`config` is the frozen configuration, `layout` the registers of each unit and the command words,
`encode` the command stream as bytes and back, `program` the compiled file, `control` the register bus,
`latency` the cycles from one thing to the next, `memory` the system memory.
"""
