"""tq_hw.compiler."""
