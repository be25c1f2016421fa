"""The cost model in the order of time: bursts on the bus, words at the banks, tiles of array and vector unit."""
