"""The native core returns values to the modules of this package, not texts that must be parsed."""

from __future__ import annotations

import pickle

import jetarrow
import pytest
from jetarrow import _jetarrow, errors
from jetarrow.js import errors as js_errors


def publish(nc: jetarrow.Client, subject: str, rows: object, mode: str = "window") -> _jetarrow.PublishOutcome:
    """Publishes a batch whose rows are numbered from 100."""
    return nc._session.native.publish_batch(
        subject,
        rows,
        prefix="$JS.API",
        headers=None,
        msg_ids=None,
        msg_ttl=None,
        expected_stream=None,
        mode=mode,
        max_inflight=100,
        max_bytes=1 << 20,
        timeout=5,
        resend=None,
        progress=None,
        first_row=100,
    ).block()


async def test_row_numbers_start_at_first_row(nats_url: str, stream: str) -> None:
    pa = pytest.importorskip("pyarrow")
    async with await jetarrow.connect(nats_url) as nc:
        await nc.jetstream().update_stream(name=stream, subjects=[f"{stream}.>"], allow_atomic=True)
        table = pa.table({"data": [b"a", None, b"x" * (nc.max_payload + 1)]})
        null, large = publish(nc, f"{stream}.x", table).errors()
        assert (null.row, getattr(null.error, "row", None), str(null.error)) == (
            101,
            101,
            "row 101: the payload is null",
        )
        assert getattr(null.error, "reason", None) == "the payload is null"
        assert (large.row, "row 102 has" in str(large.error)) == (102, True)
        with pytest.raises(js_errors.BatchError, match=r"because of row 101: row 101: the payload is null") as caught:
            publish(nc, f"{stream}.x", pa.table({"data": [b"a", None]}), "atomic")
        assert caught.value.row == 101
        with pytest.raises(errors.MaxPayloadError, match="row 100 has"):
            publish(nc, f"{stream}.x", [b"x" * (nc.max_payload + 1)])


def test_loss_has_fields_equality_and_pickles() -> None:
    loss = _jetarrow.Loss("S", (3, 9), 7)
    assert (loss.stream, loss.asked, loss.available) == ("S", (3, 9), 7)
    assert str(loss) == f'{loss.summary}; start there, or pass on_data_loss="warn" to read what is left'
    assert pickle.loads(pickle.dumps(loss)) == loss != _jetarrow.Loss("S", (3, 9), 8)


async def test_servers_are_objects_with_fields(nats_url: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        (server,) = nc._session.native.servers
        assert (server.url, server.failures, server.discovered) == (nats_url, 0, False)
