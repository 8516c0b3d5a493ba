"""Addresses never show user or password, however they are written."""

from __future__ import annotations

import jetarrow.sync
import pytest
from jetarrow import errors


@pytest.mark.parametrize("mark", "/?#")
@pytest.mark.parametrize(
    "address",
    ["nats://user:12{}s3cret@127.0.0.1:4222", "nats://us{}s3cret@127.0.0.1", "ws://user:80{}s3cret@127.0.0.1"],
)
def test_what_ends_a_host_in_a_password(address: str, mark: str) -> None:
    with pytest.raises(errors.BadAddressError, match=r"/ is written %2F, \? is %3F and # is %23") as info:
        jetarrow.sync.connect(address.format(mark))
    assert "s3cret" not in str(info.value)
