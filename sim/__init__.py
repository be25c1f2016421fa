"""tq_hw.sim."""
