"""Remedies for errors of the server, the cluster and the account."""

from __future__ import annotations

_WAIT = "wait until the cluster has a leader, then retry"
_NO_CLUSTER = "it needs a cluster: connect to one, or leave it out"

# No server can take a replica, or the leader that a step-down prefers cannot lead: the server sends one code for both.
NO_PEERS = 10005
PREFERRED = "preferred server"
PREFERRED_REMEDY = "pass the name of a server in info().cluster.replicas that does not lead, or leave preferred out"

SERVER_REMEDIES = {
    10002: "lower max_bytes or delete streams, or raise the account's limits; account_info shows both",
    10003: "check the arguments; the server may be too old for one of them",
    10004: "retry: not all servers of the cluster have answered",
    NO_PEERS: "check placement, num_replicas and the free resources of the cluster's servers",
    10006: _NO_CLUSTER,
    10007: _WAIT,
    10008: _WAIT,
    10009: _WAIT,
    10010: _NO_CLUSTER,
    10011: "leave out the tags of placement",
    10023: "free storage or memory of JetStream, or raise max_file_store and max_memory_store of the server",
    10025: "correct the request: the server cannot parse its JSON",
    10028: "delete streams in memory, or raise max_memory_store of the server (max_memory of the account)",
    10035: "check the account of the connection's user",
    10036: "use one server, or leave the feature out",
    10038: "send the request without a payload",
    10039: "enable JetStream for this account, or connect with another one",
    10040: "check the peer's name: stream_info shows the cluster",
    10041: _WAIT,
    10044: "check the server's name: nats server report jetstream shows the members",
    10047: "free storage of JetStream, or raise max_file_store of the server (max_store of the account)",
    10075: "add a server that can take the replica, then retry",
    10076: "start the server with JetStream: nats-server -js",
    10185: "update the server: it is too old for the request's required API level",
    10202: "wait until the other change of members is complete, then retry",
    10224: "check the cluster (nats server report jetstream) before the rescue is repeated",
}
