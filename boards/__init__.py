"""tq_hw.boards."""
