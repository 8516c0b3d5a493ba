"""Rules of connections: addresses, TLS, attempts, subjects, options, passwords."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jetarrow.migrate.rules.rule import Found, Module, argument, is_complete, is_none, keyword, rule, text_of

CONNECTING, DEFAULTS, METHODS = "security-and-connecting", "defaults", "methods"
# Option of connect that disables the check of subjects.
_UNCHECKED = "skip_subject_validation"
_SECRETS = ("password", "token", "user")
_CONTEXTS = ("ssl.create_default_context", "ssl.SSLContext")


def _connects(node: ast.Call, module: Module) -> bool:
    return module.is_path(node.func, "nats.connect") or module.calls(node, "Client", "connect")


def _integer(node: ast.AST | None) -> int | None:
    """Return the value of an integer constant, also of a negative one."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.Constant(value=int(number)):
            return number
    return None


@rule(
    "connect-attempts",
    anchor=CONNECTING,
    remedy="set max_reconnect_attempts=-1 if the program can start before its server",
)
def connect_attempts(node: ast.Call, module: Module) -> Iterator[Found]:
    """A connect that may end after one attempt per server."""
    if not _connects(node, module) or not is_complete(node):
        return
    attempts = argument(node, "max_reconnect_attempts", 12 if module.calls(node, "Client", "connect") else 99)
    number = _integer(module.names.single(attempts))
    reconnect = keyword(node, "allow_reconnect")
    if reconnect is not None and not (isinstance(reconnect.value, ast.Constant) and reconnect.value.value is True):
        return
    if attempts is None or (number is not None and number >= 0):
        yield node, "connect raises NoServersError after one attempt per server, not after max_reconnect_attempts"


@rule("ping-interval", anchor=DEFAULTS, remedy="set ping_interval=120 to keep nats-py's interval")
def ping_interval(node: ast.Call, module: Module) -> Iterator[Found]:
    """A connect with the default interval of pings."""
    place = 13 if module.calls(node, "Client", "connect") else 99
    if _connects(node, module) and is_complete(node) and argument(node, "ping_interval", place) is None:
        yield node, "connect without ping_interval sends a ping every 10 s, not every 120 s"


def _addresses(node: ast.expr | None, module: Module) -> Iterator[ast.AST]:
    """Yield the constants of an address, or of a list of addresses."""
    found = module.names.single(node)
    elements = found.elts if isinstance(found, ast.List | ast.Tuple) else [node]
    yield from (one for one in map(module.names.single, elements) if one is not None)


@rule("tls-address", anchor=CONNECTING, remedy="write nats:// for a server without TLS")
def tls_address(node: ast.Call, module: Module) -> Iterator[Found]:
    """An address that requires TLS."""
    if _connects(node, module):
        for one in _addresses(argument(node, "servers", 0), module):
            if "tls://" in (text_of(one) or ""):
                yield one, "an address tls:// never falls back to plaintext"


@rule("tls-required", anchor=CONNECTING, remedy="omit tls= for a server without TLS")
def tls_required(node: ast.Call, module: Module) -> Iterator[Found]:
    """A connect that requires TLS."""
    given = keyword(node, "tls") if _connects(node, module) else None
    if given is not None and not is_none(given.value):
        yield given.value, "connect with tls= raises SecureConnWantedError if the server has no TLS"


@rule(
    "tls-client-certificate",
    anchor=CONNECTING,
    remedy='write tls=jetarrow.TLS.from_context(context, cert="me.pem", key="me.key")',
)
def tls_client_certificate(node: ast.Call, module: Module) -> Iterator[Found]:
    """A context with a client certificate, which cannot be read from it."""
    given = keyword(node, "tls") if _connects(node, module) else None
    if given is None or not isinstance(given.value, ast.Name):
        return
    context = module.names.single(given.value)
    if not isinstance(context, ast.Call) or not module.is_path(context.func, *_CONTEXTS):
        return
    bindings = module.names.scope(given.value).lookup(given.value.id)
    for one in ast.walk(module.names.tree):
        if (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr == "load_cert_chain"
            and isinstance(one.func.value, ast.Name)
            and module.names.scope(one).lookup(one.func.value.id) is bindings
        ):
            yield given.value, "the client certificate of an ssl.SSLContext is not sent"
            return


def _is_subject(text: str, *, wildcards: bool = False) -> bool:
    tokens = text.split(".")
    return all(tokens) and (wildcards or not {"*", ">"} & set(tokens))


@rule("subject", anchor=CONNECTING, remedy="publish to a subject without empty tokens and wildcards")
def subject(node: ast.Call, module: Module) -> Iterator[Found]:
    """A publish to a subject that is refused."""
    if not (
        module.calls(node, "Client", "publish request")
        or module.calls(node, "JetStreamContext", "publish publish_async")
    ):
        return
    given = argument(node, "subject", 0)
    text = text_of(module.names.single(given))
    if given is None or text is None or _is_subject(text):
        return
    if not any(isinstance(one, ast.keyword) and one.arg == _UNCHECKED for one in ast.walk(module.names.tree)):
        yield given, f"subject {text!r} raises BadSubjectError"


@rule("prefix", anchor=CONNECTING, remedy="use tokens without wildcards, white space and empty parts")
def prefix(node: ast.Call, module: Module) -> Iterator[Found]:
    """A prefix or a domain that is refused."""
    options = []
    if module.calls(node, "Client", "jetstream"):
        options = [("prefix", argument(node, "prefix", 0)), ("domain", argument(node, "domain", 1))]
    elif module.calls(node, "Client", "jsm"):
        options = [("prefix", argument(node, "prefix", 0))]
    elif _connects(node, module):
        found = keyword(node, "inbox_prefix")
        options = [("inbox_prefix", found.value if found else None)]
    for name, given in options:
        constant = module.names.single(given)
        text = text_of(constant)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, bytes):
            text = constant.value.decode("utf-8", "replace")
        if given is None or text is None:
            continue
        if not _is_subject(text) or any(one.isspace() for one in text) or (name == "domain" and "." in text):
            yield given, f"{name} {text!r} is refused"


@rule(
    "secrets",
    anchor=CONNECTING,
    node=(ast.Attribute, ast.Subscript, ast.Call),
    remedy="read them where the program passes them to connect",
)
def secrets(node: ast.Attribute | ast.Subscript | ast.Call, module: Module) -> Iterator[Found]:
    """Passwords that are read from a connection."""
    what = "a connection does not contain its passwords and tokens"
    match node:
        case ast.Attribute(attr="password" | "username") if module.is_object(node.value, "Address"):
            yield node, what
        case ast.Subscript(slice=ast.Constant(value=name)) if name in _SECRETS:
            if module.is_object(node.value, "Options"):
                yield node, what
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=name), *_]) if name in _SECRETS:
            if isinstance(node.func, ast.Attribute) and module.is_object(node.func.value, "Options"):
                yield node, what


@rule("pending-size", anchor=METHODS, remedy="raise the limit if it was close to the size of the payloads")
def pending_size(node: ast.Call, module: Module) -> Iterator[Found]:
    """A limit of pending bytes."""
    given = keyword(node, "pending_size") if _connects(node, module) else None
    if given is not None:
        yield given.value, "pending_size counts whole messages: subjects, headers and requests too"


@rule(
    "pending-data-size",
    anchor=METHODS,
    node=ast.Attribute,
    remedy="raise thresholds that it is compared with",
)
def pending_data_size(node: ast.Attribute, module: Module) -> Iterator[Found]:
    """The size of pending data."""
    if node.attr == "pending_data_size" and module.is_object(node.value, "Client"):
        yield node, "pending_data_size counts whole messages: subjects, headers and requests too"
