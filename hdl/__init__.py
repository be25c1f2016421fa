"""tq_hw.hdl."""
