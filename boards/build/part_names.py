"""Names that Yosys must not see when it maps with ABC9."""

__all__ = ["HIDE_PARTS"]

#: Hides alias names of parts of a wire. ABC9 returns a bit as `sum[3]`: Yosys takes it for bit 3 of the wire `sum`, but
#: also for bit 0 of the 32-bit part that Amaranth names `sum[3]`. It then connects the wrong bits, or an assertion
#: fails. To be run before hierarchy is flattened.
HIDE_PARTS = "rename -hide w:*[[]*"
