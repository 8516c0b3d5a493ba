"""TLS: settings for the native core, including those that cannot be read from an `ssl.SSLContext`."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jetarrow.core.redaction import secret_path
from jetarrow.core.suggestions import suggests_fields

__all__ = ["TLS"]

PathOrPem: TypeAlias = "str | bytes | os.PathLike[str]"


@suggests_fields
@dataclass(frozen=True)
class TLS:
    """TLS settings of a connection: `connect(..., tls=jetarrow.TLS(ca="ca.pem"))`.

    The files are read by `connect`.

    Attributes:
        ca: Certificates of the trusted CAs: path of a PEM file, or PEM text. Default: those of the system.
        cert: The client certificate, with its chain, likewise. Default: none.
        key: Its private key, likewise. Default: none.
        hostname: Host name that the server's certificate must have. Default: the host of its address.
        check_hostname: False accepts a certificate of any name that a trusted CA has signed. Default: True.
        verify: False accepts any certificate; for experiments only. Default: True.
        handshake_first: The TLS handshake precedes the server's INFO; the server needs the same setting. Default:
            False.
    """

    ca: PathOrPem | None = None
    cert: PathOrPem | None = field(default=None, repr=False)
    key: PathOrPem | None = field(default=None, repr=False)
    hostname: str | None = None
    verify: bool = True
    handshake_first: bool = False
    check_hostname: bool = True

    @classmethod
    def from_context(
        cls, context: ssl.SSLContext, *, cert: PathOrPem | None = None, key: PathOrPem | None = None
    ) -> TLS:
        """Creates the settings from a context; the client certificate, which cannot be read from it, is passed.

        Args:
            context: The source of trusted CAs, `verify_mode` and `check_hostname`.
            cert: The client certificate that was passed to `load_cert_chain`: path of a PEM file, or PEM text. Default:
                none.
            key: Its private key, likewise. Default: in the file of `cert`.
        """
        if cert is not None and key is None:
            key = cert
        roots = "".join(ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True))
        return cls(
            ca=roots or None,
            cert=cert,
            key=key,
            verify=context.verify_mode != ssl.CERT_NONE,
            check_hostname=context.check_hostname,
        )


def read_pem(name: str, given: PathOrPem) -> bytes:
    """Returns PEM text, or the content of a PEM file.

    Args:
        name: The setting, for error texts.
        given: PEM text or path.

    Raises:
        OSError: The file cannot be read.
    """
    text = given.encode() if isinstance(given, str) else given
    if isinstance(text, bytes) and b"-----BEGIN " in text:
        return text
    path = os.fsdecode(text) if isinstance(text, bytes) else text
    with open(secret_path(f"tls: {name}", path), "rb") as file:
        return file.read()


def native_tls(
    given: ssl.SSLContext | TLS | None, hostname: str | None, handshake_first: bool
) -> dict[str, Any] | None:
    """Converts TLS settings for the native core.

    Raises:
        TypeError: `given` is neither an `ssl.SSLContext` nor a `TLS`.
        ValueError: Only one of certificate and key is set.
    """
    settings: dict[str, Any] = {
        "required": True,
        "roots": None,
        "identity": None,
        "hostname": hostname or None,
        "verify": True,
        "check_name": True,
        "handshake_first": handshake_first,
    }
    hostname = hostname or None
    if not given:
        if hostname is None and not handshake_first:
            return None
        return {**settings, "required": handshake_first}
    if isinstance(given, TLS):
        if (given.cert is None) != (given.key is None):
            raise ValueError("jetarrow.TLS: cert and key go together; pass both or neither")
        if given.ca is not None:
            settings["roots"] = [read_pem("ca", given.ca)]
        if given.cert is not None and given.key is not None:
            settings["identity"] = (read_pem("cert", given.cert), read_pem("key", given.key))
        settings["hostname"] = hostname or given.hostname
        settings["verify"], settings["check_name"] = given.verify, given.check_hostname
        settings["handshake_first"] = handshake_first or given.handshake_first
        return settings
    if isinstance(given, ssl.SSLContext):
        # Empty if the context has the system's CAs only, which OpenSSL loads on demand.
        settings["roots"] = given.get_ca_certs(binary_form=True) or None
        settings["verify"] = given.verify_mode != ssl.CERT_NONE
        settings["check_name"] = given.check_hostname
        return settings
    raise TypeError(f"tls must be an ssl.SSLContext or a jetarrow.TLS, not {type(given).__name__}")
