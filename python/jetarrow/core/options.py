"""The options of `connect`: defaults, checks, and their conversion for the native core."""

from __future__ import annotations

import itertools
import os
from collections import UserString
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlparse

from jetarrow.core.arguments import FOREVER, seconds
from jetarrow.core.errors import BadAddressError, NoServersError, ServerNotInPoolError
from jetarrow.core.redaction import ADDRESS, secret_path
from jetarrow.core.servers import RawCredentials, ReconnectToServerHandler, Server
from jetarrow.core.tls import native_tls

DEFAULT_INBOX_PREFIX = b"_INBOX"
DEFAULT_PENDING_SIZE = 2 * 1024 * 1024
# As in nats.go: seconds without and with TLS.
DEFAULT_RECONNECT_JITTER = 0.1
DEFAULT_RECONNECT_JITTER_TLS = 1.0
DEFAULT_RECONNECT_TIME_WAIT = 2
DEFAULT_MAX_RECONNECT_ATTEMPTS = 60
DEFAULT_PING_INTERVAL = 10
DEFAULT_MAX_OUTSTANDING_PINGS = 2
DEFAULT_MAX_FLUSHER_QUEUE_SIZE = 1024
DEFAULT_CONNECT_TIMEOUT = 2
DEFAULT_DRAIN_TIMEOUT = 30

JWTCallback: TypeAlias = Callable[[], bytes | bytearray]
SignatureCallback: TypeAlias = Callable[[str], bytes]
TokenCallback: TypeAlias = Callable[[], str]
CredentialCallback: TypeAlias = Callable[[], str]
Credentials: TypeAlias = "str | tuple[str, str] | RawCredentials | os.PathLike[str]"

CALLBACKS = ("error_cb", "disconnected_cb", "closed_cb", "discovered_server_cb", "reconnected_cb", "lame_duck_mode_cb")
# Secrets, or functions that return them: not stored in `Client.options`.
_SECRET = {
    "user",
    "password",
    "token",
    "user_credentials",
    "nkeys_seed_str",
    "signature_cb",
    "user_jwt_cb",
    "ws_connection_headers",
}


_TEXTS = ("name", "user", "password", "token", "nkeys_seed", "nkeys_seed_str", "user_credentials", "tls_hostname")


class UserFunctions:
    """Wraps functions of the user. Their exceptions are stored for `connect` and sent to the error callback."""

    def __init__(self, enqueue_event: Callable[[str, Exception], None]) -> None:
        self._enqueue_event = enqueue_event
        self.failure: Exception | None = None

    def failed(self, error: Exception) -> None:
        """Stores an exception for `connect`, and sends it to the error callback."""
        self.failure = error
        self._enqueue_event("error", error)

    def text(self, name: str, function: Callable[..., Any]) -> Callable[..., str]:
        """Wraps a function that returns a string or UTF-8 bytes."""

        def call(*args: Any) -> str:
            try:
                value = function(*args)
                if isinstance(value, bytes | bytearray):
                    return value.decode()
                if not isinstance(value, str):
                    raise TypeError(f"{name} must return str or bytes, not {type(value).__name__}")
                return value
            except Exception as error:
                self.failed(error)
                raise

        return call

    def choice(self, handler: ReconnectToServerHandler) -> Callable[..., tuple[int | None, float]]:
        """Wraps `reconnect_to_server_handler`; the wrapper returns the index of the server."""

        def call(servers: list[tuple[str, int]], info: dict[str, Any]) -> tuple[int | None, float]:
            try:
                pool = [Server(urlparse(url), failures) for url, failures in servers]
                selected, delay = handler(pool, info)
                if selected is None:
                    return None, max(0.0, delay)
                places = [server.uri.netloc for server in pool]
                place = selected.uri.netloc.rpartition("@")[2]
                if place not in places:
                    self.failed(ServerNotInPoolError())
                    return None, max(0.0, delay)
                return places.index(place), max(0.0, delay)
            except Exception as error:
                self.failed(error)
                raise

        return call


def _has_bad_address(addresses: list[str]) -> bool:
    return not all("@" in address or ADDRESS.fullmatch(address.strip()) for address in addresses)


def _may_have_comma_in_secret(addresses: list[str]) -> bool:
    """Whether a token with a comma may have been split, so that an error would show its first part: `nats://a,b@host`."""
    pairs = itertools.pairwise(addresses)
    return any("@" not in first and "@" in second and "://" not in second for first, second in pairs)


def server_list(servers: object) -> list[str]:
    """Returns the addresses of a string, a comma-separated string or a list of strings."""
    if isinstance(servers, str):
        text, servers = servers, servers.split(",")
        if "@" in text and (_has_bad_address(servers) or _may_have_comma_in_secret(servers)):
            raise BadAddressError(
                "nats: invalid server address (not shown, because it contains a user or a password): in user and"
                " password write a comma as %2C and an @ as %40, and put the scheme before addresses with a user"
            )
    if not isinstance(servers, Sequence) or not all(isinstance(address, str) for address in servers):
        raise BadAddressError("nats: invalid connect url option: servers must be a string or a list of strings")
    if not servers:
        raise NoServersError("nats: no server address given: pass servers=")
    for number, address in enumerate(servers):
        _check_text(f"nats: server address {number}", address, BadAddressError)
    return [address.strip() for address in servers]


def _seconds(given: dict[str, Any], name: str) -> float:
    value = seconds(name, given[name])
    if value is None:
        raise TypeError(f"{name} must be a number of seconds, not None")
    return value


def _integer(given: dict[str, Any], name: str) -> int:
    if not isinstance(given[name], int):
        raise TypeError(f"{name} must be an int, not {type(given[name]).__name__}")
    number: int = given[name]
    return number


def _check_text(name: str, given: object, error: type[Exception] = ValueError) -> None:
    for text in given if isinstance(given, tuple) else (given,):
        try:
            if isinstance(text, str | UserString):
                str(text).encode()
        except UnicodeEncodeError:
            # Python's error contains the text, which may be a secret.
            raise error(f"{name} has a lone surrogate, which UTF-8 cannot encode; remove it") from None


def _inbox_prefix(given: object) -> str:
    prefix = bytes(given).decode() if isinstance(given, bytes | bytearray) else given
    if not isinstance(prefix, str):
        raise TypeError(f"inbox_prefix must be a string, not {type(given).__name__}")
    prefix = prefix.rstrip(".")
    if any(not token or token in "*>" or not token.isprintable() or " " in token for token in prefix.split(".")):
        raise ValueError(f"invalid inbox_prefix {prefix!r}: use non-empty tokens without wildcards and white space")
    return prefix


def _source(given: dict[str, Any]) -> tuple[str, str, str | None] | None:
    creds, seed_file, seed = (given[name] for name in ("user_credentials", "nkeys_seed", "nkeys_seed_str"))
    if creds is None:
        if seed is not None and not isinstance(seed, str):
            raise TypeError(f"nkeys_seed_str must be a string, not {type(seed).__name__}")
        if seed:
            return "seed", seed, None
        return None if seed_file is None else ("seed_file", secret_path("nkeys_seed", seed_file), None)
    if isinstance(creds, tuple):
        if len(creds) != 2:
            raise ValueError(f"user_credentials has {len(creds)} items; pass a tuple (JWT file, seed file)")
        return "pair", secret_path("user_credentials", creds[0]), secret_path("user_credentials", creds[1])
    if isinstance(creds, UserString):
        return "raw", creds.data, None
    return "file", secret_path("user_credentials", creds), None


def without_secrets(given: dict[str, Any]) -> dict[str, Any]:
    """The options without secrets, as `Client.options` returns them."""
    return {name: value for name, value in given.items() if name not in _SECRET and name != "servers"}


def native_options(given: dict[str, Any], functions: UserFunctions) -> dict[str, Any]:
    """Checks the options, and converts them for the native core.

    Those of `jetarrow.nats.client` may be absent: `reconnect_timeout`, `reconnect_time_wait_max`, and `nkey`, a
    function that returns the public nkey for `signature_cb` without a JWT.

    Raises:
        ValueError: An option has an invalid value.
        TypeError: An option has a wrong type.
    """
    for option in _TEXTS:
        _check_text(option, given[option])
    pings, attempts = (_integer(given, name) for name in ("max_outstanding_pings", "max_reconnect_attempts"))
    if pings < 1:
        raise ValueError(f"max_outstanding_pings must be 1 or more, not {pings}")

    connect_timeout = FOREVER if given["connect_timeout"] is None else _seconds(given, "connect_timeout")
    wait = _seconds(given, "reconnect_time_wait")

    def text(name: str) -> Any:
        value = given[name]
        return functions.text(name, value) if callable(value) else value

    return {
        "servers": server_list(given["servers"]),
        "name": given["name"],
        # Several values of a header are joined with commas (RFC 9110, section 5.3).
        "websocket_headers": [
            (name, ", ".join(value)) for name, value in (given["ws_connection_headers"] or {}).items()
        ],
        "connect_timeout": connect_timeout,
        "reconnect_timeout": connect_timeout if given.get("reconnect_timeout") is None else given["reconnect_timeout"],
        "ping_interval": _seconds(given, "ping_interval"),
        "max_outstanding_pings": pings,
        "inbox_prefix": _inbox_prefix(given["inbox_prefix"]),
        "no_echo": bool(given["no_echo"]),
        "skip_subject_validation": bool(given["skip_subject_validation"]),
        "allow_reconnect": bool(given["allow_reconnect"]),
        "max_reconnects": attempts if attempts > 0 else None,
        "reconnect_wait": wait,
        "reconnect_wait_max": given.get("reconnect_time_wait_max", wait),
        "reconnect_jitter": _seconds(given, "reconnect_jitter"),
        "reconnect_jitter_tls": _seconds(given, "reconnect_jitter_tls"),
        "ignore_discovered": bool(given["ignore_discovered_servers"]),
        "randomize": not given["dont_randomize"],
        "pending_size": max(0, _integer(given, "pending_size")),
        "retry_first": attempts < 0 and bool(given["allow_reconnect"]),
        "user": text("user"),
        "password": text("password"),
        "token": text("token"),
        "source": _source(given),
        "jwt": text("user_jwt_cb"),
        "nkey": functions.text("nkey", given["nkey"]) if given.get("nkey") else None,
        "sign": text("signature_cb"),
        "tls": native_tls(given["tls"], given["tls_hostname"], bool(given["tls_handshake_first"])),
        "choose": functions.choice(handler) if (handler := given["reconnect_to_server_handler"]) else None,
    }
