"""The words of the protocol, under nats-py's path."""
