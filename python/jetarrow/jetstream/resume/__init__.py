"""Publishing of a table that continues after an interruption, beyond the stream's duplicate window."""
