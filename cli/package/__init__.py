"""What `tq-hw generate` writes: a folder that needs nothing of ours."""
