"""The verb `doctor` of a manager and a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetarrow.jetstream.api import HasSession, JetStreamApi
from jetarrow.jetstream.models.values import checked_name

if TYPE_CHECKING:
    from jetarrow.jetstream.doctor.finding import Findings
    from jetarrow.jetstream.doctor.thresholds import Thresholds

# Checks that need the state of the servers.
NEEDS_SYSTEM = (
    "sync interval, slow consumers, storage, versions, certificates and clocks of all servers: needs the system account"
)
NEEDS_INFO = "limits of the account: needs permission to publish to $JS.API.INFO"


class Doctor:
    """The verb `doctor` of a manager and a context."""

    _api: JetStreamApi

    async def doctor(
        self, stream: str | None = None, *, system: HasSession | None = None, thresholds: Thresholds | None = None
    ) -> Findings:
        """Diagnoses streams, their consumers, the account and the servers.

        It reads only. It makes a request per stream, one per consumer with a lag, and measures for `thresholds.measure`
        seconds if a consumer has unacknowledged messages. A healthy stream has no findings.

        Args:
            stream: One stream; None is all streams of the account.
            system: A client of the system account, for the checks of servers: of the same face as this one, blocking or
                async. Default: the client of this object, which is of another account in most configurations; these
                checks are then listed in `not_checked`.
            thresholds: The thresholds. Default: those of `Thresholds`.

        Returns:
            The findings, the most severe first.

        Raises:
            NotFoundError: The stream does not exist.
            ServiceUnavailableError: JetStream is disabled on the server or for the account.
            TypeError: `system` is a client of the other face.
        """
        from jetarrow.jetstream.doctor.finding import sorted_findings
        from jetarrow.jetstream.doctor.gather import gather
        from jetarrow.jetstream.doctor.rules import diagnose
        from jetarrow.jetstream.doctor.texts import stream_name
        from jetarrow.jetstream.doctor.thresholds import Thresholds

        if stream is not None:
            checked_name("stream", stream)
        account = self._api.session if system is None else system._session
        if type(account) is not type(self._api.session):
            raise TypeError("system must be a client of the same face: jetarrow.sync.connect for jetarrow.sync")
        limits = thresholds or Thresholds()
        snapshot = await gather(self._api, stream, account=account, thresholds=limits)
        not_checked = [] if snapshot.servers else [NEEDS_SYSTEM]
        if snapshot.account is None and not snapshot.unavailable:
            not_checked.append(NEEDS_INFO)
        failed = [facts for facts in snapshot.streams if facts.failure]
        not_checked += [f"part of {stream_name(facts.info)}: {facts.failure}" for facts in failed]
        return sorted_findings(diagnose(snapshot, limits), not_checked)
