"""JetStream, under the module paths of nats-py."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetarrow.js import api
    from jetarrow.js import client as client
    from jetarrow.js import errors as errors
    from jetarrow.js import kv as kv
    from jetarrow.js import manager as manager
    from jetarrow.js.client import JetStreamContext
    from jetarrow.js.manager import JetStreamManager
else:

    def __getattr__(name: str) -> Any:
        # `import jetarrow as nats` is enough for `nats.js.api.StreamConfig`; unused modules are not loaded.
        home = {"JetStreamContext": "client", "JetStreamManager": "manager"}.get(name)
        if home is not None:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
        if name in ("api", "client", "errors", "kv", "manager"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["JetStreamContext", "JetStreamManager", "api"]
