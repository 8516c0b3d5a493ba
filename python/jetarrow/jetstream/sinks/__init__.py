"""Exactly-once archives of a stream: the position is stored with the data."""
