"""tq_hw.cli."""
