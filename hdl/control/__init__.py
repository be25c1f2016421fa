"""Commands and host: fetch, decoding per unit, tokens, registers."""
