"""Batch and stream writers, and their parts."""
