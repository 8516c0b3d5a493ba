"""Pipes: streams that are made of other streams by a function, exactly once."""
