"""The replicas of a stream: methods of its handle."""

from __future__ import annotations

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.manage.leaders import remove_stream_peer, step_down_stream


class StreamReplicas:
    """The methods `step_down` and `remove_peer` of a stream."""

    _api: JetStreamApi
    name: str

    async def step_down(self, preferred: str | None = None) -> None:
        """Makes the leader step down, so that the servers of the stream elect another one.

        It returns before the election, which takes less than a second: publishes and requests to the stream may get
        503 No Responders meanwhile, which publishes retry. `(await stream.info()).cluster.leader` is the new leader. A
        stream with one replica has no other leader: nothing changes.

        Args:
            preferred: Name of the server that becomes the leader; it must have a replica. Server 2.11 or later.
                Default: any.

        Raises:
            NotFoundError: The stream does not exist.
            BadRequestError: `preferred` has no replica, or is the leader.
            ServiceUnavailableError: The server is not part of a cluster, or there is no leader at present.
            TimeoutError: No leader answered, as during an election.
            UnsupportedError: The server is too old for `preferred`.
            ValueError: `preferred` is empty.
        """
        await step_down_stream(self._api, self.name, preferred)

    async def remove_peer(self, peer: str) -> None:
        """Removes the replica on a server, which the cluster replaces with one on another server if there is one.

        For a server that does not return. The replica's data on the server is deleted; the new replica copies the
        messages from the others.

        Args:
            peer: Name of the server, or its peer id, as in `(await stream.info()).cluster.replicas`.

        Raises:
            NotFoundError: The stream does not exist.
            BadRequestError: The stream has no replica on that server, or no other server can take it.
            ServiceUnavailableError: The server is not part of a cluster, or the cluster has no leader at present.
            ValueError: `peer` is empty.
        """
        await remove_stream_peer(self._api, self.name, peer)
