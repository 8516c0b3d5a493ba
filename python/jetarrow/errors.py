"""Errors of the connection and of core NATS, under nats-py's module path."""

from __future__ import annotations

from jetarrow.core.errors import *
from jetarrow.core.errors import __all__ as _core
from jetarrow.core.store_locked import StoreLockedError
from jetarrow.core.system_errors import ServerNotFoundError, SystemAccountError, SystemRequestError

__all__ = [*_core, "ServerNotFoundError", "StoreLockedError", "SystemAccountError", "SystemRequestError"]
