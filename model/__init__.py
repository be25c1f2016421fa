"""A `.tflite` file as a verified, immutable graph."""
