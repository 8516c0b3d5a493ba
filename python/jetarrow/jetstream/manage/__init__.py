"""Management of streams, consumers and single messages."""
