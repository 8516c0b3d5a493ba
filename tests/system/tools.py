"""Helpers of these tests: a system account, and a cluster that is ready."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jetarrow.sync
from jetarrow.errors import Error
from jetarrow.server import NatsServer

from ..tools import wait_until

ACCOUNTS = """
server_tags: ["zone:a"]
accounts { $SYS { users: [
  { user: admin, password: x }
  { user: limited, password: x, permissions: { publish: { deny: ["$SYS.REQ.SERVER.>"] } } }
] } }
"""
USER: dict[str, Any] = {"user": "admin", "password": "x"}
VERBS = ("ping", "varz", "connz", "jsz", "healthz", "subsz", "routez", "gatewayz", "leafz", "accountz")


def ready(servers: dict[str, NatsServer], password: str = "x") -> None:
    """Waits until every server knows the others, and JetStream has a leader."""

    def is_ready(nc: jetarrow.sync.Client) -> bool:
        with suppress(Error):
            known = [answer.data.active_servers for answer in nc.system().ping()]
            leaders = {answer.data.meta_cluster.leader for answer in nc.system().jsz() if answer.data.meta_cluster}
            return known == [len(servers)] * len(servers) and len(leaders) == 1 and None not in leaders
        return False

    with jetarrow.sync.connect(servers["n0"].url, user="admin", password=password) as nc:
        wait_until(lambda: is_ready(nc), 60)
