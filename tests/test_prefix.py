"""API prefixes and domains with protocol syntax are rejected: such a prefix once published to another subject."""

from __future__ import annotations

import uuid

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors

BAD = ["", "a b", "a..b", ".a", "a.", "a.*", "a.>", "a\r\nPUB {evil} 2\r\nhi\r\nPUB x"]


@pytest.mark.parametrize("prefix", BAD)
async def test_invalid_prefix_raises_bad_subject_error(nats_url: str, prefix: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for option in ("prefix", "api_prefix"):
            with pytest.raises(errors.BadSubjectError):
                nc.jetstream(**{option: prefix})
        with pytest.raises(errors.BadSubjectError):
            nc.jsm(prefix=prefix)
    with jetarrow.sync.connect(nats_url) as blocking, pytest.raises(errors.BadSubjectError):
        blocking.jetstream(prefix=prefix)


@pytest.mark.parametrize("domain", ["", "a.b", "a b", "a*", "x\r\nPUB evil 2\r\nhi\r\n"])
async def test_a_domain_is_one_token(nats_url: str, domain: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        with pytest.raises(ValueError, match="domain name"):
            nc.jetstream(domain=domain)


async def test_invalid_prefix_set_internally_is_not_sent(nats_url: str) -> None:
    """The native methods, which write to the connection, check the prefix again."""
    evil = f"evil.{uuid.uuid4().hex}"
    prefix = BAD[-1].format(evil=evil)
    async with await jetarrow.connect(nats_url) as nc:
        heard = await nc.subscribe(evil)
        native = nc._session.native
        js = nc.jetstream()
        js._api.prefix = prefix
        calls = [
            lambda: native.pull_subscribe(prefix, "S", "C"),
            lambda: js.read("S"),
        ]
        for call in calls:
            with pytest.raises(errors.BadSubjectError):
                call()
        with pytest.raises(errors.BadSubjectError):
            await js.publish_batch("x", [b"1"], mode="auto")
        with pytest.raises(errors.BadSubjectError):
            await js.account_info()
        await nc.flush()
        assert heard.pending_msgs == 0
