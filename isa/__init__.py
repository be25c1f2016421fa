"""The definitions that hardware, compiler, simulator and firmware share, each in one place.

`config` is the frozen configuration, `layout` the registers of each unit and the command words, `encode` the command
stream as bytes and back, `program` the compiled file, `control` the register bus, `latency` the latencies in cycles,
`memory` the system memory.
"""
