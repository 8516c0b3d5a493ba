"""JetStream: publishing, fetching and reading, and management."""
