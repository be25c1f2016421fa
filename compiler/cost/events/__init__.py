"""The event-driven cost model: bursts on the bus, words at the banks, tiles of array and vector unit."""
