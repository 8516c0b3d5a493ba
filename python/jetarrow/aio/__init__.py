"""Connection, messages and subscriptions, under the module paths of nats-py."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetarrow.aio import client as client
    from jetarrow.aio import errors as errors
    from jetarrow.aio import msg as msg
else:

    def __getattr__(name: str) -> Any:
        # `import jetarrow as nats` is enough for `nats.aio.client.Client`; unused modules are not loaded.
        if name in ("client", "errors", "msg", "subscription", "transport"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
