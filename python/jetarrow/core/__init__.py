"""Core NATS: the connection, messages, subscriptions, requests."""
