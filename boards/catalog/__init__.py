"""The boards: one record per board, and the list of all."""
