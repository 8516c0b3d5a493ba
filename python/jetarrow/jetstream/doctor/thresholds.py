"""Thresholds of the diagnosis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of `js.doctor`. Durations are seconds.

    Attributes:
        full: Part of a limit from which it is nearly full. Default: 0.8.
        lag: Age of the oldest unprocessed message from which a consumer lags. Default: one hour.
        idle: Time without activity after which a pull consumer without waiting requests is unused. Default: one hour.
        ephemeral_idle: The same for an ephemeral consumer. Default: five minutes.
        retry_time: Time for which publishers resend a message; the duplicate window must be longer. Default: 30, the
            timeout of `publish_batch` and of a publisher.
        batch: Messages of one fetch; `max_ack_pending` must not be smaller. Default: 1000, as `fetch_batch`.
        clock: Difference between two clocks. Default: 1.
        source_silence: Time without activity after which a mirror or source is disconnected. Default: 30. A server
            sends heartbeats once a second, and reconnects after ten seconds without one.
        replica_silence: Time without activity after which a replica is offline. Default: 10, after which the server
            counts the quorum as lost (`lostQuorumInterval` in its raft.go).
        certificate: Time before the expiry of a TLS certificate. Default: 30 days.
        measure: Duration of the measurement of acknowledgements, if a consumer has unacknowledged messages; 0 disables
            it. Default: 1.
    """

    full: float = 0.8
    lag: float = 3600.0
    idle: float = 3600.0
    ephemeral_idle: float = 300.0
    retry_time: float = 30.0
    batch: int = 1000
    clock: float = 1.0
    source_silence: float = 30.0
    replica_silence: float = 10.0
    certificate: float = 30 * 86_400.0
    measure: float = 1.0
