"""What a model must obey: operator limits, quantization, shapes, and the records they are checked on."""
