"""HandshakeError, in a module of its own: it imports `ssl`, which loads slowly."""

from __future__ import annotations

import ssl

from jetarrow.core.errors import SecureConnFailedError


class HandshakeError(SecureConnFailedError, ssl.SSLError):
    """The TLS handshake failed; also an `ssl.SSLError`."""
