"""Constants of the protocol, under nats-py's module path."""
