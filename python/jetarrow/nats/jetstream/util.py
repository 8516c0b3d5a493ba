"""Helpers of this package."""

from __future__ import annotations

import uuid


def new_inbox() -> str:
    """Returns a new inbox subject, below `_INBOX` whatever the connection's inbox prefix is."""
    return f"_INBOX.{uuid.uuid4().hex}"
