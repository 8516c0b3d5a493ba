"""The options of a connection, which reading and writing share: where the servers are, and who we are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jetarrow.spark._core import RawCredentials

from .allowed import check_context
from .option_texts import OptionTexts, invalid, server_list
from .secrets import REFERENCES, Secret, warn_of_literals

# Spark itself hides the values of these names in plans, as they match its spark.redaction.regex.
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
# One kind of credentials at a time, else the server picks what was not meant.
_CREDENTIALS = ("user", "authToken", "credsFile", "credsSecret", "nkeyFile", "nkeySecret")


@dataclass(frozen=True)
class ConnectOptions:
    """Checked options of a connection. Secrets are references, which every worker resolves for itself.

    Attributes:
        servers: Addresses, each ``nats://host:port`` or ``tls://host:port``.
        secrets: Who we are and what proves it, and files of TLS. Default: none.
        js_domain: The domain whose JetStream is meant. Default: the server's own.
        api_prefix: First tokens of the subjects of JetStream's API, instead of a domain. Default: the server's own.
        inbox_prefix: First tokens of the subjects that answers come to. Default: `_INBOX`.
        timeout: Seconds for one attempt at one server. Default: 2.
        name: What the server calls our connections. Default: jetarrow-spark, in a task with application and query.
        context: A context of the `nats` tool on every machine, in place of servers and secrets. Default: none.
        tls_hostname: The name that the servers' certificates must carry. Default: the host of each address.
        tls_first: Whether TLS begins before the server's first word. Default: False.
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

    def arguments(self) -> dict[str, Any]:
        """Resolve the secrets, and return the arguments of `jetarrow.sync.connect`.

        References are looked up once more at each reconnect: what has expired may have been replaced.

        Raises:
            ValueError: A reference leads nowhere in this process, or is not allowed.
        """
        found: dict[str, Any] = {
            "name": self.name or "jetarrow-spark",
            "connect_timeout": self.timeout,
            # A worker may outlive any outage; what waits for the server has a timeout of its own. Not -1: with that
            # the first connect would go on for ever as well.
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
                # The client reads a file of keys whenever it connects.
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
        """Warn, once per process and option, of secrets that were given in place of a reference."""
        warn_of_literals(tuple(secret for secret in self.secrets if secret.option in _SECRETS))


def connect_options(given: OptionTexts) -> ConnectOptions:
    """Read and check the options of a connection.

    Args:
        given: What the user has set.

    Returns:
        The options, with secrets still unresolved.

    Raises:
        ValueError: An option is missing, not valid, or does not go with another one.
    """
    context = given.text("context")
    if context is None:
        servers = server_list(given.required("servers", "a comma list such as nats://host:4222"))
    else:
        # What a context holds is sent to its own servers only, and not to those that anybody names.
        for name in ("servers", *_CREDENTIALS, *_FILES, "tlsHostname", "tlsHandshakeFirst"):
            if given.text(name) is not None:
                raise invalid(name, "does not go with 'context', which says where and as whom", "one of them")
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
