"""TLS settings that an `ssl.SSLContext` cannot carry to the native core, first of all a client certificate."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jetarrow.core.redaction import secret_path

__all__ = ["TLS"]

PathOrPem: TypeAlias = "str | bytes | os.PathLike[str]"


@dataclass(frozen=True)
class TLS:
    """How to speak TLS with the servers: `connect(..., tls=jetarrow.TLS(ca="ca.pem"))`.

    The files are read when connecting.

    Attributes:
        ca: Certificates of the CAs to trust: path of a PEM file, or PEM text. Default: the system's.
        cert: The client certificate, with its chain, likewise. Default: none.
        key: Its private key, likewise. Default: none.
        hostname: The name that the server's certificate must carry. Default: the host of its address.
        check_hostname: False accepts a certificate of any name, if a trusted CA has signed it.
        verify: False accepts any certificate: for experiments only.
        handshake_first: TLS begins before the server's first word; the server must be set so as well.
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
        """What can be read of a context, with the client certificate, which cannot be.

        Args:
            context: Its trusted CAs, `verify_mode` and `check_hostname` are taken.
            cert: The client certificate that `load_cert_chain` was given: path of a PEM file, or PEM text. Default:
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
    """PEM text itself, or what is in the file.

    Args:
        name: What it is, for messages.
        given: Text or path.

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
    """The native core's settings.

    Raises:
        TypeError: `given` is neither a context nor TLS.
        ValueError: A certificate without its key, or the other way round.
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
            raise ValueError("jetarrow.TLS: cert and key go together; one of them is missing")
        if given.ca is not None:
            settings["roots"] = [read_pem("ca", given.ca)]
        if given.cert is not None and given.key is not None:
            settings["identity"] = (read_pem("cert", given.cert), read_pem("key", given.key))
        settings["hostname"] = hostname or given.hostname
        settings["verify"], settings["check_name"] = given.verify, given.check_hostname
        settings["handshake_first"] = handshake_first or given.handshake_first
        return settings
    if isinstance(given, ssl.SSLContext):
        # None where the context has only the system's, which OpenSSL loads one by one when it needs them.
        settings["roots"] = given.get_ca_certs(binary_form=True) or None
        settings["verify"] = given.verify_mode != ssl.CERT_NONE
        settings["check_name"] = given.check_hostname
        return settings
    raise TypeError(f"tls must be an ssl.SSLContext or a jetarrow.TLS, not {type(given).__name__}")
