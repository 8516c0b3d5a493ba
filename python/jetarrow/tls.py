"""TLS options; the same as `jetarrow.TLS`."""

from __future__ import annotations

from jetarrow.core.tls import TLS, PathOrPem

__all__ = ["TLS", "PathOrPem"]
