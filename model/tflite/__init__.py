"""The `.tflite` file: verified FlatBuffer reader, schema, writer."""
