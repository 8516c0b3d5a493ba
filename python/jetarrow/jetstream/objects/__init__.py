"""Object stores (ADR-20): a bucket is a stream, an object is a sequence of chunk messages and a metadata message."""
