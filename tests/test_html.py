"""Output in notebooks: small tables, cut and escaped, without secrets."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import jetarrow.sync
import pytest
from jetarrow.jetstream import html
from jetarrow.js.client import JetStreamContext

from .tools import fill, fill_sync


class Cells(HTMLParser):
    """Collects the texts of a table, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td")
        assert not attrs
        self.open.append(tag)
        if tag in ("caption", "th", "td"):
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def cells(shown: object) -> list[str]:
    return Cells(shown._repr_html_()).texts  # type: ignore[attr-defined]  # all that is shown has it


async def test_a_batch(js: JetStreamContext, stream: str) -> None:
    headers = {"Authorization": "s3cret-word"}
    await js.publish(f"{stream}.a", b"<script>alert(1)</script>" + b"x" * 1000, headers=headers)
    await js.publish(f"{stream}.a", b"\x00\xff" * 500)
    (await js.publish_batch(f"{stream}.a", ["x"] * 20)).raise_for_errors()
    batch = await (await js.pull_subscribe(f"{stream}.>")).fetch_batch(22, min_messages=22)
    text = batch._repr_html_()
    found = Cells(text).texts
    assert found[0] == "MessageBatch: 22 rows, the first 10"
    assert found[1:7] == ["stream", "seq", "subject", "timestamp", "headers", "data"]
    assert len(found) == 7 + 10 * 6
    assert max(map(len, found)) == html.LONGEST
    assert found[12].startswith("<script>alert")
    assert "<script>" not in text
    assert found[11] == "Authorization"
    assert "s3cret-word" not in text
    decoded = batch.decode({"id": int})
    assert "value" in cells(decoded)


async def test_a_reader(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    reader = js.read(stream, start_seq=2)
    assert cells(reader) == [f"Reader of stream {stream}", "state", "new", "next sequence", "2", "rows read", "0"]
    await reader.read_all()
    assert cells(reader)[2::2] == ["read to its end", "4", "2"]


async def test_a_result(js: JetStreamContext, stream: str) -> None:
    result = await js.publish_batch([f"{stream}.a", f"{stream}.b", f"{stream}X.<b>"], ["1", "2", "3"])
    found = cells(result)
    assert found[:9] == ["PublishResult", "stream", stream, "rows", "3", "stored", "2", "duplicates", "0"]
    assert found[9:12] == ["errors", "1", "row 2"]
    assert "<b>" in found[12]
    assert "<b>" not in result._repr_html_()


async def test_infos(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    info = await js.stream_info(stream)
    found = cells(info)
    assert found[:5] == [f"Stream {stream}", "subjects", f"{stream}.>", "messages", "3"]
    assert found[5:7] == ["bytes", f"{info.state.bytes:,}"]
    secret = {"password": "s3cret-word"}
    consumer = await js.add_consumer(stream, name="c", metadata=secret, filter_subject=f"{stream}.a")
    found = cells(consumer)
    assert found[0] == f"Consumer c of stream {stream}"
    assert ("filters", f"{stream}.a") in zip(found[1::2], found[2::2], strict=True)
    assert "s3cret-word" not in consumer._repr_html_()


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    reader = sync_js.read(stream)
    assert cells(next(reader))[0] == "MessageBatch: 3 rows"
    assert cells(reader)[:3] == [f"Reader of stream {stream}", "state", "open"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (b"a\nb", "a\nb"),
        (b"\x00\x01", r"\x00\x01"),
        ("&<>\"'", "&amp;&lt;&gt;&quot;&#x27;"),
        ("x" * 201, "x" * 199 + "…"),
        ("ü" * 200, "ü" * 200),
        (memoryview(b"m"), "m"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert html.cell(value) == shown
    assert re.sub(r"<[^>]+>", "", html.table("", (), [[value]])) == shown
