"""Reading: the batch reader, the stream reader, and what they are made of."""
