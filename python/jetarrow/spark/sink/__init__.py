"""Writing: the batch and the stream writer, and what they are made of."""
