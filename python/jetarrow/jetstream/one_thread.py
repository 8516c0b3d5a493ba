"""What one thread at a time may use."""

from __future__ import annotations

import threading

from jetarrow.core.errors import Error


class OneThread:
    """One thread at a time reads: two would each get a part of the rows. The tasks of a thread may take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[int] = []

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if self._inside and me not in self._inside:
                raise Error("another thread reads from this reader: js.read(...) gives each a reader of its own")
            self._inside.append(me)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside.remove(threading.get_ident())
