"""Rules for models: operator limits, quantization, shapes, and the records that they are checked on."""
