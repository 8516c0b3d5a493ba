"""Calls of core NATS that block, made while the server is frozen."""

from __future__ import annotations

import jetarrow.sync

from .setting import LONG, Setting, call


@call("Client.connect")
def connect(at: Setting) -> None:
    at.freeze()
    jetarrow.sync.connect(at.url, connect_timeout=LONG)


@call("Client.close")
def close(at: Setting) -> None:
    """More than the socket takes."""
    nc = jetarrow.sync.connect(at.url)
    js = nc.jetstream()
    at.freeze()
    for _ in range(100):
        js.publish_async(at.subject, bytes(500_000))
    nc.close()


@call("Client.drain")
def drain(at: Setting) -> None:
    nc = jetarrow.sync.connect(at.url)
    at.freeze()
    nc.drain()


@call("Client.flush")
def flush(at: Setting) -> None:
    at.freeze()
    at.nc.flush(timeout=LONG)


@call("Client.rtt")
def rtt(at: Setting) -> None:
    at.freeze()
    at.nc.rtt(timeout=LONG)


@call("Client.request")
def request(at: Setting) -> None:
    at.freeze()
    at.nc.request(at.subject, timeout=LONG)


@call("Client.request_many")
def request_many(at: Setting) -> None:
    at.freeze()
    list(at.nc.request_many(at.subject, timeout=LONG))


@call("Client.request")
def request_old_style(at: Setting) -> None:
    at.freeze()
    at.nc.request(at.subject, timeout=LONG, old_style=True)


@call("Client.publish")
def core_publish(at: Setting) -> None:
    """More than the client holds."""
    at.freeze()
    while True:
        at.nc.publish("nobody.listens", bytes(500_000))


@call("Client.jetstream_manager")
def jetstream_manager(at: Setting) -> None:
    at.freeze()
    at.nc.jetstream_manager()


@call("System.varz")
def system_varz(at: Setting) -> None:
    at.freeze()
    at.nc.system(timeout=LONG).varz()


@call("Client.trace")
def trace(at: Setting) -> None:
    at.freeze()
    at.nc.trace(at.subject, timeout=LONG)


@call("Subscription.next_msg")
def next_msg(at: Setting) -> None:
    sub = at.nc.subscribe("nobody.publishes")
    at.freeze()
    sub.next_msg(timeout=LONG)


@call("Subscription.__iter__")
def subscription(at: Setting) -> None:
    sub = at.nc.subscribe("nobody.publishes")
    at.freeze()
    next(iter(sub))


@call("Subscription.drain")
def subscription_drain(at: Setting) -> None:
    sub = at.nc.subscribe("nobody.publishes")
    at.freeze()
    sub.drain()


@call("Client.__exit__")
def client_in_a_with(at: Setting) -> None:
    with jetarrow.sync.connect(at.url) as nc:
        at.freeze()
        nc.jetstream().publish(at.subject, b"x", timeout=LONG)
