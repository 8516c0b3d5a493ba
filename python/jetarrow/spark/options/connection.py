"""Connection options of reads and writes: servers and credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jetarrow.spark._core import RawCredentials

from .allowed import check_context
from .option_texts import OptionTexts, invalid, server_list
from .secrets import REFERENCES, Secret, warn_of_literals

# Spark hides the values of these names in plans, because they match spark.redaction.regex.
_SECRETS = ("password", "authToken", "credsSecret", "nkeySecret")
_FILES = ("credsFile", "nkeyFile", "tlsCaFile", "tlsCertFile", "tlsKeyFile")
CONNECT_OPTIONS = (
    "servers",
    "context",
    "user",
    *_SECRETS,
    *_FILES,
    "jsDomain",
    "apiPrefix",
    "inboxPrefix",
    "connectTimeoutMs",
    "connectionName",
    "tlsHostname",
    "tlsHandshakeFirst",
)
# Only one kind of credentials is accepted, because the server would select one of several.
_CREDENTIALS = ("user", "authToken", "credsFile", "credsSecret", "nkeyFile", "nkeySecret")


@dataclass(frozen=True)
class Endpoint:
    """Servers and credentials: the options that distinguish connections.

    Attributes:
        servers: Addresses, sorted.
        secrets: Credentials, and files of TLS, sorted by option.
        inbox_prefix: As `ConnectOptions`, because the permissions of a user depend on it.
        context: As `ConnectOptions`.
        tls_hostname: As `ConnectOptions`.
        tls_first: As `ConnectOptions`.
    """

    servers: tuple[str, ...]
    secrets: tuple[Secret, ...]
    inbox_prefix: str | None
    context: str | None
    tls_hostname: str | None
    tls_first: bool


@dataclass(frozen=True)
class ConnectOptions:
    """Validated options of a connection. Secrets are references that every worker resolves.

    Attributes:
        servers: Addresses, each ``nats://host:port`` or ``tls://host:port``.
        secrets: Credentials, and files of TLS. Default: none.
        js_domain: JetStream domain. Default: that of the server.
        api_prefix: Prefix of the subjects of the JetStream API, instead of a domain. Default: that of the server.
        inbox_prefix: Prefix of reply subjects. Default: `_INBOX`.
        timeout: Seconds for one attempt to connect to one server. Default: 2.
        name: Name of the connection. Default: jetarrow-spark, in a task with the application.
        context: A context of the `nats` tool on every machine, in place of servers and secrets. Default: none.
        tls_hostname: Name that the servers' certificates must have. Default: the host of each address.
        tls_first: Whether the TLS handshake precedes INFO. Default: False.
    """

    servers: tuple[str, ...]
    secrets: tuple[Secret, ...] = ()
    js_domain: str | None = None
    api_prefix: str | None = None
    inbox_prefix: str | None = None
    timeout: float = 2.0
    name: str | None = None
    context: str | None = None
    tls_hostname: str | None = None
    tls_first: bool = False

    @property
    def endpoint(self) -> Endpoint:
        """The options that distinguish connections: equal for options that may share one."""
        return Endpoint(
            servers=tuple(sorted(set(self.servers))),
            secrets=tuple(sorted(self.secrets, key=lambda secret: secret.option)),
            inbox_prefix=self.inbox_prefix,
            context=self.context,
            tls_hostname=self.tls_hostname,
            tls_first=self.tls_first,
        )

    def arguments(self) -> dict[str, Any]:
        """Resolve the secrets, and return the arguments of `jetarrow.sync.connect`.

        References are resolved again at each reconnect, because expired secrets may have been replaced.

        Raises:
            ValueError: A reference cannot be resolved in this process, or is not allowed.
        """
        found: dict[str, Any] = {
            "name": self.name or "jetarrow-spark",
            "connect_timeout": self.timeout,
            # Unlimited, because every request has its own timeout. Not -1, which would also make the first connect
            # unlimited.
            "max_reconnect_attempts": 1_000_000_000,
            "reconnect_time_wait": 0.25,
        }
        if self.context is None:
            found["servers"] = list(self.servers)
        else:
            check_context(self.context)
            found["context"] = self.context
        if self.inbox_prefix is not None:
            found["inbox_prefix"] = self.inbox_prefix
        tls: dict[str, Any] = {} if self.tls_hostname is None else {"hostname": self.tls_hostname}
        if self.tls_first:
            tls["handshake_first"] = True
        for secret in self.secrets:
            text = secret.resolve()
            again = secret.resolve if secret.is_reference else text
            match secret.option:
                case "user" | "password":
                    found[secret.option] = again
                case "authToken":
                    found["token"] = again
                # The client reads credential files at every connect.
                case "credsFile" | "credsSecret":
                    found["user_credentials"] = secret.path() or RawCredentials(text)
                case "nkeyFile" | "nkeySecret":
                    path = secret.path()
                    found["nkeys_seed_str" if path is None else "nkeys_seed"] = path or text
                case _:  # tlsCaFile and so on: a path, or PEM text
                    tls[secret.option.removeprefix("tls").removesuffix("File").lower()] = text
        if tls:
            from jetarrow.core.tls import TLS

            found["tls"] = TLS(**tls)
        return found

    def jetstream_arguments(self) -> dict[str, Any]:
        """Return the arguments of the client's `jetstream`."""
        if self.js_domain is not None:
            return {"domain": self.js_domain}
        return {} if self.api_prefix is None else {"prefix": self.api_prefix}

    def warn(self) -> None:
        """Warn once per process and option if a secret was given instead of a reference."""
        warn_of_literals(tuple(secret for secret in self.secrets if secret.option in _SECRETS))


def connect_options(given: OptionTexts) -> ConnectOptions:
    """Read and check the options of a connection.

    Args:
        given: The options of the user.

    Returns:
        The options, with unresolved secrets.

    Raises:
        ValueError: An option is missing, not valid, or excluded by another one.
    """
    context = given.text("context")
    if context is None:
        servers = server_list(given.required("servers", "a comma list such as nats://host:4222"))
    else:
        # Credentials of a context are sent only to the servers of that context.
        for name in ("servers", *_CREDENTIALS, *_FILES, "tlsHostname", "tlsHandshakeFirst"):
            if given.text(name) is not None:
                raise invalid(name, "excludes 'context', which has servers and credentials", "one of the two")
        servers = (f"those of context {context}",)
    secrets = {name: text for name in _SECRETS if (text := given.raw(name)) is not None}
    secrets |= {name: text for name in _FILES if (text := given.text(name)) is not None}
    if (user := given.text("user")) is not None:
        secrets = {"user": user, **secrets}
    domain, prefix = given.text("jsDomain"), given.text("apiPrefix")
    ways = [name for name in _CREDENTIALS if name in secrets]
    if len(ways) > 1:
        valid = "one of " + ", ".join(_CREDENTIALS)
        raise invalid(ways[-1], f"does not go with '{ways[0]}'", valid)
    if "password" in secrets and user is None:
        raise invalid("password", "there is no user", "user with password")
    if ("tlsCertFile" in secrets) != ("tlsKeyFile" in secrets):
        missing = "tlsKeyFile" if "tlsCertFile" in secrets else "tlsCertFile"
        raise invalid(missing, "is missing", f"tlsCertFile and tlsKeyFile together; each a path, or {REFERENCES}")
    if domain is not None and prefix is not None:
        raise invalid("apiPrefix", "does not go with 'jsDomain'", "one of the two")
    return ConnectOptions(
        servers=servers,
        secrets=tuple(Secret(name, text) for name, text in secrets.items()),
        js_domain=domain,
        api_prefix=prefix,
        inbox_prefix=given.text("inboxPrefix"),
        timeout=given.positive("connectTimeoutMs", 2000) / 1000,
        name=given.text("connectionName"),
        context=context,
        tls_hostname=given.text("tlsHostname"),
        tls_first=given.flag("tlsHandshakeFirst", default=False),
    )
