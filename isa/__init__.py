"""tq_hw.isa."""
