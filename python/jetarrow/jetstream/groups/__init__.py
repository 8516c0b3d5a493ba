"""Partitioned consumer groups: the design of orbit.go's pcgroups, whose groups are shared with members in Go and Java."""
