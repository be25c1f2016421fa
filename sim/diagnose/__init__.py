"""Where two engines differ first, and what ran when."""
