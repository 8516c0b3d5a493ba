"""The options of `format("jetstream")`: read from texts, checked, with their defaults."""
