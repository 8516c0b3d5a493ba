"""The errors themselves: classes, attributes, texts; the same with both clients."""

from __future__ import annotations

import asyncio
import inspect
import sys
import warnings
from typing import Any

import jetarrow.errors
import jetarrow.js.errors
import nats.errors
import nats.js.errors
import pytest

from .face import Face


def classes(module: Any) -> list[str]:
    found = inspect.getmembers(module, inspect.isclass)
    return sorted(name for name, cls in found if issubclass(cls, Exception) and cls.__module__ == module.__name__)


def lineage(cls: type) -> set[str]:
    """The names of the bases that `except` may name."""
    return {base.__name__ for base in cls.__mro__}


@pytest.mark.parametrize("name", classes(nats.errors))
def test_core_errors(name: str) -> None:
    assert lineage(getattr(jetarrow.errors, name)) == lineage(getattr(nats.errors, name))


@pytest.mark.parametrize("name", classes(nats.js.errors))
def test_jetstream_errors(name: str) -> None:
    assert lineage(getattr(jetarrow.js.errors, name)) == lineage(getattr(nats.js.errors, name))


def test_there_are_errors_to_compare() -> None:
    assert (len(classes(nats.errors)) > 25, len(classes(nats.js.errors)) > 25) == (True, True)


def test_timeouts_are_caught_in_three_ways(face: Face) -> None:
    for error in (face.errors.TimeoutError(), face.js_errors.FetchTimeoutError(), face.errors.FlushTimeoutError()):
        assert isinstance(error, asyncio.TimeoutError)
        assert isinstance(error, TimeoutError)
        assert isinstance(error, face.errors.TimeoutError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "BadRequestError"),
        (404, "NotFoundError"),
        (500, "ServerError"),
        (503, "ServiceUnavailableError"),
        (409, "APIError"),
    ],
)
def test_the_class_for_a_code(face: Face, code: int, kind: str) -> None:
    with pytest.raises(face.js_errors.APIError) as caught:
        face.js_errors.APIError.from_error({"code": code, "err_code": 10999, "description": "no"})
    error = caught.value
    assert type(error) is getattr(face.js_errors, kind)
    assert (error.code, error.err_code, error.description, error.stream, error.seq) == (code, 10999, "no", None, None)
    assert all(part in str(error) for part in (str(code), "10999", "no", kind))


def test_from_a_status_message(face: Face) -> None:
    make = face.load("aio.msg").Msg
    found = []
    for status, text in (("503", "gone"), ("409", "Consumer Deleted")):
        with pytest.raises(face.js_errors.APIError) as caught:
            face.js_errors.APIError.from_msg(make(None, headers={"Status": status, "Description": text}))
        found.append(face.kind(caught.value))
    assert found == ["js.errors.ServiceUnavailableError", "js.errors.APIError"]
    assert (caught.value.code, caught.value.description) == (409, "Consumer Deleted")


def test_errors_made_by_hand(face: Face) -> None:
    slow = face.errors.SlowConsumerError(subject="a", reply="b", sid=3, sub=None)
    assert (slow.subject, slow.reply, slow.sid, slow.sub) == ("a", "b", 3, None)
    assert face.errors.BadHeaderError("a b").key == "a b"
    api = face.js_errors.NotFoundError(404, "no", 10059, "S", 7)
    assert (api.code, api.description, api.err_code, api.stream, api.seq) == (404, "no", 10059, "S", 7)
    gap = face.js_errors.ConsumerSequenceMismatchError(1, 2, 5)
    assert (gap.stream_resume_sequence, gap.consumer_sequence, gap.last_consumer_sequence) == (1, 2, 5)
    plain = face.js_errors.Error("words")
    assert (plain.description, "words" in str(plain)) == ("words", True)


def test_texts_begin_alike(face: Face) -> None:
    shared = ["TimeoutError", "NoRespondersError", "ConnectionClosedError", "NoServersError", "MaxPayloadError"]
    assert all(str(getattr(face.errors, name)()).startswith("nats: ") for name in shared)
    assert "timeout" in str(face.errors.TimeoutError())


def test_names_of_before_version_2(face: Face) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old = face.load("aio.errors")
    names = ["Timeout", "NoServers", "ConnectionClosed"]
    pairs = [(getattr(old, f"Err{name}"), getattr(face.errors, f"{name}Error")) for name in names]
    assert all(issubclass(*pair) for pair in pairs)


def test_the_old_names_are_the_same_classes_and_deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jetarrow.aio.errors", raising=False)
    with pytest.warns(DeprecationWarning, match=r"jetarrow\.errors"):
        from jetarrow.aio.errors import ErrTimeout, NatsError
    assert (ErrTimeout, NatsError) == (jetarrow.errors.TimeoutError, jetarrow.errors.Error)
