"""Archiving a stream exactly once: the position is kept with the data."""
