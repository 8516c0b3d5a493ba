"""Key-value buckets (ADR-8): a bucket is a stream, a key a subject, a revision a sequence."""
