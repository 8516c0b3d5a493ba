"""A commit whose caller is cancelled is complete or has no effect."""

from __future__ import annotations

from pathlib import Path

import jetarrow.sync
import pyarrow.dataset
import pytest
from jetarrow.jetstream.sinks.parquet_commit import Commit


def test_ctrl_c_right_after_the_record(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is there, so its files have to be: the next start does not write their rows again."""
    sync_js.publish_batch(f"{stream}.a", ["one", "two"]).raise_for_errors()
    finish = Commit.finish

    def interrupted(self: Commit, *arguments: object) -> object:
        finish(self, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Commit, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sync_js.to_parquet(stream, tmp_path).run()
    sync_js.to_parquet(stream, tmp_path).run()
    rows = [
        row for path in tmp_path.glob("*.parquet") for row in pyarrow.dataset.dataset(str(path)).to_table().to_pylist()
    ]
    assert [row["data"] for row in rows] == [b"one", b"two"]


def test_ctrl_c_before_the_record(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_js.publish_batch(f"{stream}.a", ["one", "two"]).raise_for_errors()

    def interrupted(self: Commit, *arguments: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Commit, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sync_js.to_parquet(stream, tmp_path).run()
    assert list(tmp_path.rglob("*.parquet")) == []
    assert sync_js.to_parquet(stream, tmp_path).run().rows == 2
