"""The error of a failed handshake, apart from the others: it needs `ssl`, which is slow to load."""

from __future__ import annotations

import ssl

from jetarrow.core.errors import SecureConnFailedError


class HandshakeError(SecureConnFailedError, ssl.SSLError):
    """The TLS handshake failed, as an `ssl.SSLError`, too."""
