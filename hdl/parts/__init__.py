"""Small parts without meaning of their own: delays, queues, memories."""
