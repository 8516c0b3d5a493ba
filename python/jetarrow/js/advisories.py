"""Advisories of JetStream; re-exports `jetarrow.jetstream.advisories`."""

from __future__ import annotations

from jetarrow.jetstream.advisories import Advisories

__all__ = ["Advisories"]
