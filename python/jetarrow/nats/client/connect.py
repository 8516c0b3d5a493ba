"""The function `connect`, and the conversion of its options."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlparse

from jetarrow.client import Client as NatsClient
from jetarrow.core import errors
from jetarrow.core.connect import Connect
from jetarrow.core.servers import RawCredentials
from jetarrow.nats.client.client import Client

NkeyPublicKeyHandler: TypeAlias = Callable[[], str]
NkeySignatureHandler: TypeAlias = Callable[[str], bytes]
NkeySeed: TypeAlias = str | Path
NkeyHandlers: TypeAlias = tuple[NkeyPublicKeyHandler, NkeySignatureHandler]
JWTHandler: TypeAlias = Callable[[], bytes]
JWTSignatureHandler: TypeAlias = Callable[[str], bytes]
JWTCredentials: TypeAlias = Path | tuple[str, str] | tuple[Path, Path]
JWTHandlers: TypeAlias = tuple[JWTHandler, JWTSignatureHandler]

_SCHEMES = ("nats", "tls", "ws", "wss")
# The options of nats-py's names that `connect` does not set.
_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Connect.connect).parameters.items()
    if name not in ("self", "loop")
}


async def connect(
    url: str = "nats://localhost:4222",
    *,
    timeout: float = 2.0,
    tls: ssl.SSLContext | None = None,
    tls_hostname: str | None = None,
    tls_handshake_first: bool = False,
    allow_reconnect: bool = True,
    reconnect_max_attempts: int = 10,
    reconnect_time_wait: float = 2.0,
    reconnect_time_wait_max: float = 10.0,
    reconnect_jitter: float = 0.1,
    reconnect_timeout: float | None = None,
    no_randomize: bool = False,
    no_echo: bool = False,
    inbox_prefix: str = "_INBOX",
    ping_interval: float = 120.0,
    max_outstanding_pings: int = 2,
    token: str | Callable[[], str] | None = None,
    user: str | Callable[[], str] | None = None,
    password: str | Callable[[], str] | None = None,
    nkey: NkeySeed | NkeyHandlers | None = None,
    jwt: JWTCredentials | JWTHandlers | None = None,
) -> Client:
    """Connects to a server.

    Args:
        url: `nats://`, `tls://`, `ws://` or `wss://`, host and port.
        timeout: Maximum seconds.
        tls: Requires TLS; a context, or a `jetarrow.TLS` for a client certificate.
        tls_hostname: Host name that the certificate must have. Default: that of `url`.
        tls_handshake_first: Whether the TLS handshake precedes the server's INFO.
        allow_reconnect: False closes the connection at the first disconnect.
        reconnect_max_attempts: Failed attempts after which the connection is closed; 0 has no limit.
        reconnect_time_wait: Seconds before the second attempt at a server. The first has no delay.
        reconnect_time_wait_max: The wait doubles with each attempt up to these seconds.
        reconnect_jitter: Random addition to each wait, as a part of `reconnect_time_wait`.
        reconnect_timeout: Maximum seconds of one attempt. Default: `timeout`.
        no_randomize: Whether servers are tried in the order in which they were announced.
        no_echo: Whether the server does not send the client its own messages.
        inbox_prefix: First tokens of reply subjects.
        ping_interval: Seconds between two pings.
        max_outstanding_pings: Unanswered pings after which the client disconnects.
        token: The token, or a function that returns it.
        user: The user, or a function that returns it.
        password: The password, or a function that returns it.
        nkey: A seed, the path of its file, or functions for the public key and the signature of a nonce (base64).
        jwt: The path of a credentials file, JWT and seed, paths of both, or functions for the JWT and the signature.

    Returns:
        The client.

    Raises:
        ValueError: The scheme of `url`, `inbox_prefix`, `nkey` or `jwt` is invalid.
        FileNotFoundError: A file of `nkey` or `jwt` does not exist.
        TimeoutError: No server answered in time.
        ConnectionError: The connection failed, or the server rejected the credentials.
    """
    if urlparse(url).scheme not in _SCHEMES:
        raise ValueError("URL scheme must be 'nats://', 'tls://', 'ws://', or 'wss://'")
    _check_inbox_prefix(inbox_prefix)
    client = Client(NatsClient())
    given = {
        **_DEFAULTS,
        "servers": url,
        "error_cb": client._on_error,
        "disconnected_cb": client._on_disconnected,
        "reconnected_cb": client._on_reconnected,
        "connect_timeout": timeout,
        "tls": tls,
        "tls_hostname": tls_hostname,
        "tls_handshake_first": tls_handshake_first,
        "allow_reconnect": allow_reconnect,
        "max_reconnect_attempts": max(reconnect_max_attempts, 0),
        "reconnect_time_wait": reconnect_time_wait,
        "reconnect_time_wait_max": reconnect_time_wait_max,
        "reconnect_jitter": reconnect_jitter * reconnect_time_wait,
        "reconnect_jitter_tls": reconnect_jitter * reconnect_time_wait,
        "reconnect_timeout": reconnect_timeout,
        "dont_randomize": no_randomize,
        "no_echo": no_echo,
        "inbox_prefix": inbox_prefix,
        "ping_interval": ping_interval,
        "max_outstanding_pings": max_outstanding_pings,
        "token": token,
        "user": user,
        "password": password,
        **({} if nkey is None else _nkey_options(nkey)),
        **({} if jwt is None else _jwt_options(jwt)),
    }
    try:
        await client.nc._open(given)
    except errors.TimeoutError:
        raise TimeoutError(f"Connection timed out after {timeout} seconds") from None
    except errors.AuthorizationError as error:
        raise ConnectionError(f"Authorization failed: {error}") from None
    except errors.InvalidUserCredentialsError as error:
        raise ValueError(str(error)) from None
    except errors.Error as error:
        raise ConnectionError(f"Failed to connect: {error}") from error
    return client


def _check_inbox_prefix(prefix: str) -> None:
    if not prefix:
        raise ValueError("inbox_prefix cannot be empty")
    for wildcard in (">", "*"):
        if wildcard in prefix:
            raise ValueError(f"inbox_prefix cannot contain '{wildcard}' wildcard")
    if prefix.endswith("."):
        raise ValueError("inbox_prefix cannot end with '.'")


def _nkey_options(nkey: NkeySeed | NkeyHandlers) -> dict[str, Any]:
    if isinstance(nkey, tuple):
        return {"nkey": nkey[0], "signature_cb": nkey[1]}
    return {"nkeys_seed": str(nkey)} if isinstance(nkey, Path) else {"nkeys_seed_str": nkey}


def _jwt_options(jwt: JWTCredentials | JWTHandlers) -> dict[str, Any]:
    if isinstance(jwt, Path):
        return {"user_credentials": str(jwt)}
    if not isinstance(jwt, tuple):
        raise TypeError(
            "jwt must be the path of a credentials file, or a tuple of JWT and seed: texts, paths or functions,"
            f" not {type(jwt).__name__}"
        )
    first, second = jwt
    if callable(first):
        return {"user_jwt_cb": first, "signature_cb": second}
    if isinstance(first, Path):
        return {"user_credentials": (str(first), str(second))}
    text = (
        f"-----BEGIN NATS USER JWT-----\n{first}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{second}\n------END USER NKEY SEED------\n"
    )
    return {"user_credentials": RawCredentials(text)}
