"""Batch and stream readers, and their parts."""
