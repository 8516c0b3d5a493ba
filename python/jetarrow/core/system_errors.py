"""Errors of requests to the servers themselves (`nc.system()`)."""

from __future__ import annotations

from jetarrow.core.error_links import add_link
from jetarrow.core.errors import Error

__all__ = ["ServerNotFoundError", "SystemAccountError", "SystemRequestError"]


class SystemAccountError(Error):
    """The connection's user may not send requests to the servers: it is not a user of the system account."""

    _default = (
        "not permitted: requests to the servers need a user of the system account; connect with one, or add one to the"
        " configuration of every server: accounts { $SYS { users: [ { user: admin, password: ... } ] } }"
    )


class ServerNotFoundError(Error):
    """No server of the cluster has the name or id."""

    _default = "no server has this name or id; nc.system().ping() lists the servers"


class SystemRequestError(Error):
    """A server rejected a request, or its response cannot be read."""

    _default = "the server rejected the request, or its response cannot be read; check the options"


# Tracebacks and pickles use the public module name.
for _name in __all__:
    globals()[_name].__module__ = "jetarrow.errors"
    add_link(globals()[_name])
