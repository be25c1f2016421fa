"""The boards: one record each, and the list of them."""
