"""Classes of nats-py and the results of their members, for the inference of types."""

from __future__ import annotations

# Modules of nats-py, and of the packages that succeed it.
MODULES = frozenset({"nats", "nats.aio", "nats.errors", "nats.js", "nats.micro", "nats.nuid", "nats.protocol"})
# Package of its own, which jetarrow does not replace.
OTHER_PACKAGE = "nats.server"
SUCCESSORS = ("nats.client", "nats.jetstream", "nats.key_value")

# Classes by their last name, which is unique within nats-py.
CLASSES: dict[str, str] = {
    **{name: name for name in ("Client", "JetStreamContext", "JetStreamManager", "KeyValue", "ObjectStore", "Msg")},
    **{name: name for name in ("Subscription", "PullSubscription", "KeyWatcher", "ObjectWatcher", "PubAck")},
    **{name: name for name in ("ObjectInfo", "ObjectMeta", "ServerVersion", "Service", "Request", "ObjectResult")},
    "NATS": "Client",
    "PushSubscription": "Subscription",
}

# Results of members: of an attribute; of a call; of an awaited call. Entries of `kv.get` differ from those of watches.
ATTRIBUTES: dict[str, dict[str, str]] = {
    "Client": {
        "connected_url": "Address",
        "servers": "Addresses",
        "discovered_servers": "Addresses",
        "options": "Options",
        "connected_server_version": "ServerVersion",
    },
    "Subscription": {"messages": "Messages"},
    "ObjectResult": {"info": "ObjectInfo"},
    "ObjectInfo": {"meta": "ObjectMeta"},
}
CALLS: dict[str, dict[str, str]] = {
    "Client": {"jetstream": "JetStreamContext", "jsm": "JetStreamManager"},
}
_MANAGER = {"purge_stream": "PurgeResult"}
AWAITED_CALLS: dict[str, dict[str, str]] = {
    "Client": {"subscribe": "Subscription", "request": "Msg"},
    "JetStreamManager": _MANAGER,
    "JetStreamContext": {
        **_MANAGER,
        "publish": "PubAck",
        "publish_async": "PubAckFuture",
        "subscribe": "Subscription",
        "subscribe_bind": "Subscription",
        "pull_subscribe": "PullSubscription",
        "pull_subscribe_bind": "PullSubscription",
        "key_value": "KeyValue",
        "create_key_value": "KeyValue",
        "object_store": "ObjectStore",
        "create_object_store": "ObjectStore",
    },
    "Subscription": {"next_msg": "Msg"},
    "PullSubscription": {"fetch": "Msgs"},
    "KeyValue": {"get": "Entry", "watch": "KeyWatcher", "watchall": "KeyWatcher"},
    "KeyWatcher": {"updates": "WatchedEntry"},
    "ObjectStore": {
        "get_info": "ObjectInfo",
        "put": "ObjectInfo",
        "get": "ObjectResult",
        "delete": "ObjectResult",
        "list": "ObjectInfos",
        "watch": "ObjectWatcher",
    },
    "ObjectWatcher": {"updates": "ObjectInfo"},
}
# Results of awaiting an object, of iterating over one, and of `async with`.
AWAITED = {"PubAckFuture": "PubAck"}
ELEMENTS = {
    "Messages": "Msg",
    "Msgs": "Msg",
    "Addresses": "Address",
    "KeyWatcher": "WatchedEntry",
    "ObjectInfos": "ObjectInfo",
    "ObjectWatcher": "ObjectInfo",
}
ENTERED = frozenset({"Client", "Service"})
# Functions whose awaited result is an object.
FUNCTIONS = {"nats.connect": "Client", "nats.micro.add_service": "Service"}


def is_successor(path: str) -> bool:
    """Return whether a dotted name belongs to a successor of nats-py."""
    return any(path == name or path.startswith(f"{name}.") for name in SUCCESSORS)


def is_other(path: str) -> bool:
    """Return whether a dotted name belongs to another package below `nats`."""
    return path == OTHER_PACKAGE or path.startswith(f"{OTHER_PACKAGE}.")


def is_nats(path: str) -> bool:
    """Return whether a dotted name belongs to nats-py."""
    return (path == "nats" or path.startswith("nats.")) and not is_successor(path) and not is_other(path)


def class_of(path: str) -> str | None:
    """Return the class of nats-py that a dotted name means, if it is one of the known classes."""
    return CLASSES.get(path.rpartition(".")[2]) if is_nats(path) else None
