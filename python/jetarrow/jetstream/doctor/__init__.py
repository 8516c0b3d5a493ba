"""Diagnosis of streams, consumers and servers: facts are gathered once, and rules without I/O find problems in them."""
