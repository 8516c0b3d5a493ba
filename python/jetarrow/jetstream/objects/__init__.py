"""Object stores (ADR-20): a bucket is a stream, an object a row of chunks, and a message that says what they are."""
