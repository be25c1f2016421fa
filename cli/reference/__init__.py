"""Generators of pages in docs/reference: boards, operators, and the units that work for each operator."""
