"""Prometheus metrics of clients (extra `metrics`: prometheus_client).

    import jetarrow.metrics

    jetarrow.metrics.prometheus(nc)
    prometheus_client.start_http_server(9100)

The native counters are read when Prometheus scrapes; no thread runs in between.
"""

from __future__ import annotations

import importlib.util
import itertools
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import UnsupportedError
from jetarrow.core.status import Status

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

__all__ = ["ClientCollector", "prometheus"]

# Key of `nc.metrics()`, name and help of the metric, whether it is a counter, value of the label `direction`.
_METRICS: tuple[tuple[str, str, str, bool, str | None], ...] = (
    ("in_msgs", "messages", "Messages received and sent.", True, "in"),
    ("out_msgs", "messages", "Messages received and sent.", True, "out"),
    ("in_bytes", "payload_bytes", "Bytes of their payloads.", True, "in"),
    ("out_bytes", "payload_bytes", "Bytes of their payloads.", True, "out"),
    ("reconnects", "reconnects", "Times that the connection was made anew.", True, None),
    ("errors_received", "errors", "Errors that the server has sent.", True, None),
    ("queue_bytes", "queue_bytes", "Bytes published or requested, and not sent yet.", False, None),
    ("in_flight", "in_flight_messages", "Messages published into streams, and not acknowledged yet.", False, None),
    ("in_flight_bytes", "in_flight_bytes", "Their bytes.", False, None),
    ("resent", "resent_messages", "Messages published once more, after a break or without a leader.", True, None),
    ("dropped", "dropped_messages", "Messages that subscriptions had no room for.", True, None),
    ("connected", "connected", "1 while the connection is up.", False, None),
)
# Key of the dictionaries in `nc.metrics_by_verb()`, name and help of the metric, value of the label `direction`.
_BY_VERB: tuple[tuple[str, str, str, str | None], ...] = (
    ("in_msgs", "verb_messages", "Messages received and sent, by what they were for.", "in"),
    ("out_msgs", "verb_messages", "Messages received and sent, by what they were for.", "out"),
    ("in_bytes", "verb_payload_bytes", "Bytes of their payloads.", "in"),
    ("out_bytes", "verb_payload_bytes", "Bytes of their payloads.", "out"),
    ("resent", "verb_resent_messages", "Those published once more.", None),
)


class ClientCollector:
    """Collects the metrics of clients for Prometheus. Created by `prometheus`.

    Clients are held weakly: deleted clients are omitted.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._clients: list[tuple[str, weakref.ref[Status]]] = []

    def add(self, client: Status, name: str) -> None:
        """Adds a client.

        Args:
            client: The client, async or sync.
            name: Value of its label `client`.

        Raises:
            ValueError: Another client has this name, so that their metrics would have the same labels.
        """
        self._clients = [(one, found) for one, found in self._clients if found() is not None]
        if any(one == name and found() is not client for one, found in self._clients):
            raise ValueError(
                f"could not add client {name!r}: another client has this name; pass different names= or connect(name=)"
            )
        self._clients.append((name, weakref.ref(client)))

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics for one scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        clients = [(name, found) for name, client in self._clients if (found := client()) is not None]
        counts = [(name, found.metrics()) for name, found in clients]
        families: dict[str, Any] = {}
        for key, name, text, grows, direction in _METRICS:
            if name not in families:
                labels = ["client", "direction"] if direction else ["client"]
                kind: Any = CounterMetricFamily if grows else GaugeMetricFamily
                families[name] = kind(f"{self._prefix}_{name}", text, labels=labels)
            for client, count in counts:
                families[name].add_metric([client, direction] if direction else [client], count[key])
        yield from families.values()
        yield from self._by_verb(clients)
        text = "Seconds from sending a message to its acknowledgement."
        latency = HistogramMetricFamily(f"{self._prefix}_ack_latency_seconds", text, labels=["client"])
        for client, found in clients:
            took = found.ack_latency()
            below = itertools.accumulate(count for _, count in took.counts)
            buckets = [(str(bound), sum_) for (bound, _), sum_ in zip(took.counts, below, strict=True)]
            all_of_them = (buckets[-1][1] if buckets else 0) + took.beyond
            latency.add_metric([client], [*buckets, ("+Inf", all_of_them)], took.total)
        yield latency

    def _by_verb(self, clients: list[tuple[str, Status]]) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        moved = [(name, found.metrics_by_verb()) for name, found in clients]
        families: dict[str, CounterMetricFamily] = {}
        for key, name, text, direction in _BY_VERB:
            if name not in families:
                labels = ["client", "verb", "direction"] if direction else ["client", "verb"]
                families[name] = CounterMetricFamily(f"{self._prefix}_{name}", text, labels=labels)
            for client, verbs in moved:
                for verb, counts in verbs.items():
                    families[name].add_metric([client, verb, *filter(None, [direction])], counts[key])
        yield from families.values()


def prometheus(
    *clients: Status,
    names: list[str] | None = None,
    registry: CollectorRegistry | None = None,
    prefix: str = "jetarrow",
) -> ClientCollector:
    """Registers clients with Prometheus; requires prometheus_client.

    Metrics, each with the label `client`: `<prefix>_messages_total` and `<prefix>_payload_bytes_total` (with the label
    `direction`: in, out), `<prefix>_reconnects_total`, `<prefix>_errors_total`, `<prefix>_queue_bytes` (queued),
    `<prefix>_in_flight_messages` and `<prefix>_in_flight_bytes` (unacknowledged), `<prefix>_connected` (1 or 0),
    `<prefix>_resent_messages_total` (after a reconnect), `<prefix>_dropped_messages_total` (by full subscriptions) and
    the histogram `<prefix>_ack_latency_seconds`. With the additional label `verb` (as in `nc.metrics_by_verb()`):
    `<prefix>_verb_messages_total`, `<prefix>_verb_payload_bytes_total` and `<prefix>_verb_resent_messages_total`.

    Args:
        *clients: Clients, async or sync.
        names: Values of their label `client`; default the `name` option of `connect`, or "default" without it.
        registry: The registry; default that of prometheus_client.
        prefix: Prefix of the metric names; default "jetarrow".

    Returns:
        The collector; `registry.unregister(collector)` removes it.

    Raises:
        UnsupportedError: prometheus_client is not installed.
        ValueError: Two clients have the same name.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise UnsupportedError(
            "jetarrow.metrics.prometheus()",
            'prometheus_client; run: pip install "jetarrow[metrics]"',
            "it is not installed",
        )
    if names is not None and len(names) != len(clients):
        raise ValueError(f"{len(clients)} clients and {len(names)} names: pass one name per client")
    from prometheus_client import REGISTRY

    collector = ClientCollector(prefix)
    for number, client in enumerate(clients):
        collector.add(client, names[number] if names is not None else client.options.get("name") or "default")
    (registry or REGISTRY).register(collector)
    return collector
