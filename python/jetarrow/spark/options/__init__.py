"""The options of `format("jetstream")`: parsing, validation and defaults."""
