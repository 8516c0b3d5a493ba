"""Partitioned consumer groups: the design of orbit.go's pcgroups, shared with members in Go and Java."""
