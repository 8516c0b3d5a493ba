"""Types of arguments."""

from collections.abc import Mapping
from typing import TypeAlias

from typing_extensions import Buffer

Payload: TypeAlias = Buffer | str
Headers: TypeAlias = Mapping[str, str | list[str]]
