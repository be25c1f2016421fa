"""The command stream: operations in order, tokens between units, encoding."""
