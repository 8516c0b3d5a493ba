"""A misspelt option is an error with the nearest name: of calls, configurations and the command."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jetarrow
import jetarrow.polars
import jetarrow.sync
import pytest
from jetarrow.core.suggestions import check_keywords, keywords_of, suggests_keywords, suggests_keywords_async
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.priority import FETCH_KEYWORDS
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.publish_headers import PUBLISH_KEYWORDS
from jetarrow.js.api import ConsumerConfig, KeyValueConfig, ObjectStoreConfig, Placement, StreamConfig, StreamSource
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

SYNC: dict[str, tuple[Callable[[jetarrow.sync.JetStream], Any], str]] = {
    "add_stream": (lambda js: js.add_stream(name="G", max_mgs=1), "max_msgs"),
    "update_stream": (lambda js: js.update_stream(name="T", max_mgs=1), "max_msgs"),
    "add_consumer": (lambda js: js.add_consumer("T", durable_nam="a"), "durable_name"),
    "pull_subscribe": (lambda js: js.pull_subscribe("a", "d", stream="T", ack_wiat=1), "ack_wait"),
    "subscribe": (lambda js: js.subscribe("a", stream="T", ack_wiat=1), "ack_wait"),
    "ordered_consumer": (lambda js: js.ordered_consumer("T", strat_seq=1), "start_seq"),
    "publish": (lambda js: js.publish("a", b"", mgs_id="1"), "msg_id"),
    "publish_async": (lambda js: js.publish_async("a", b"", scedule="1"), "schedule"),
    "publish_batch": (lambda js: js.publish_batch("a", [b""], mgs_ids=["1"]), "msg_ids"),
    "publish_table": (lambda js: js.publish_table([], "a", colums=["a"]), "columns"),
    "publisher": (lambda js: js.publisher("a", max_inflght=1), "max_inflight"),
    "read": (lambda js: js.read("T", strat_seq=1), "start_seq"),
    "latest": (lambda js: js.latest("T", shema=1), "schema"),
    "to_parquet": (lambda js: js.to_parquet("T", "x", partion_by=1), "partition_by"),
    "to_delta": (lambda js: js.to_delta("T", "x", shema=1), "schema"),
    "to_iceberg": (lambda js: js.to_iceberg("T", "a.b", catlog="x"), "catalog"),
    "get_msg": (lambda js: js.get_msg("T", sq=1), "seq"),
    "create_key_value": (lambda js: js.create_key_value(bucket="B", histroy=1), "history"),
    "create_object_store": (lambda js: js.create_object_store("B", replcas=1), "replicas"),
}
PLAIN: dict[str, tuple[Callable[[], Any], str]] = {
    "StreamConfig": (lambda: StreamConfig(max_mgs=1), "max_msgs"),
    "ConsumerConfig": (lambda: ConsumerConfig(ack_wiat=1), "ack_wait"),
    "KeyValueConfig": (lambda: KeyValueConfig(bucket="B", histroy=1), "history"),
    "ObjectStoreConfig": (lambda: ObjectStoreConfig(bucket="B", replcas=1), "replicas"),
    "StreamSource": (lambda: StreamSource(name="S", filter_subjct="a"), "filter_subject"),
    "Placement": (lambda: Placement(clustr="c"), "cluster"),
    "TLS": (lambda: jetarrow.TLS(crt="x"), "cert"),
    "NatsServer": (lambda: NatsServer(stor_dir="x"), "store_dir"),
    "sync.connect": (lambda: jetarrow.sync.connect("127.0.0.1:1", nme="a"), "name"),
    "scan": (lambda: jetarrow.polars.scan("127.0.0.1:1", "S", subjcts="a"), "subjects"),
    "scan's connection": (lambda: jetarrow.polars.scan("127.0.0.1:1", "S", user_credential="a"), "user_credentials"),
}


@pytest.mark.parametrize("verb", SYNC)
def test_misspelt_keyword_of_a_verb_has_suggestion(sync_js: jetarrow.sync.JetStream, verb: str) -> None:
    call, meant = SYNC[verb]
    with pytest.raises(TypeError, match=f"; did you mean '{meant}'"):
        call(sync_js)


@pytest.mark.parametrize("name", PLAIN)
def test_misspelt_keyword_of_a_constructor_has_suggestion(name: str) -> None:
    call, meant = PLAIN[name]
    with pytest.raises(TypeError, match=f"; did you mean '{meant}'"):
        call()


async def test_misspelt_keyword_of_an_async_verb_has_suggestion(js: JetStreamContext, nats_url: str) -> None:
    for call, meant in (
        (lambda: jetarrow.connect(nats_url, nme="a"), "name"),
        (lambda: js.publish("a", b"", mgs_id="1"), "msg_id"),
        (lambda: js.publish_batch("a", [b""], mgs_ids=["1"]), "msg_ids"),
        (lambda: js.publish_table([], "a", colums=["a"]), "columns"),
        (lambda: js.add_stream(name="G", max_mgs=1), "max_msgs"),
    ):
        with pytest.raises(TypeError, match=f"; did you mean '{meant}'"):
            await call()
    with pytest.raises(TypeError, match="; did you mean 'domain'"):
        js._api.session.client.jetstream(domian="a")


async def test_misspelt_keyword_of_a_fetch_has_suggestion(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", "d")
    with pytest.raises(TypeError, match="a fetch has no option 'max_mesages'; did you mean 'max_messages'"):
        await sub.fetch_batch(max_mesages=1)


def test_error_of_the_function_itself_is_raised_unchanged() -> None:
    def inner(*, seq: int) -> int:
        return seq

    @suggests_keywords
    def outer(seq: int) -> int:
        return inner(sqe=seq)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"'sqe'$") as caught:
        outer(1)
    assert "did you mean" not in str(caught.value)
    with pytest.raises(TypeError, match="did you mean 'seq'"):
        outer(sqe=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'entirely_different'$"):
        outer(entirely_different=1)  # type: ignore[call-arg]


def test_decorated_functions_keep_kind_signature_and_docstring() -> None:
    async def verb(seq: int, *, keep: int = 0) -> int:
        """Does it."""
        return seq + keep

    decorated = suggests_keywords_async(verb)
    assert inspect.iscoroutinefunction(decorated)
    assert inspect.signature(decorated) == inspect.signature(verb)
    assert decorated.__doc__ == "Does it."
    assert inspect.signature(StreamConfig).parameters["max_msgs"].default is None


def test_keywords_of_calls_are_complete() -> None:
    assert set(PUBLISH_KEYWORDS) == set(keywords_of(PublishVerbs.publish))
    fetches = keywords_of(PullSubscription.fetch) + keywords_of(PullSubscription.fetch_batch)
    assert set(FETCH_KEYWORDS) == set(fetches)


def test_check_keywords_suggests_other_options_of_the_call() -> None:
    check_keywords("f", ["a"], ["a"])
    with pytest.raises(TypeError, match="f has no option 'timout'; did you mean 'timeout'"):
        check_keywords("f", ["timout"], ["a"], ["timeout"])


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["publish", "a", "x", "--srever", "b"], "--server"),
        (["load", "x.csv", "--subjet", "a"], "--subject"),
        (["sink", "parquet", "S", "x", "--folow"], "--follow"),
        (["strem", "ls"], "stream"),
    ],
    ids=["publish", "load", "sink", "command"],
)
def test_misspelt_option_of_the_command_has_suggestion(arguments: list[str], meant: str) -> None:
    run = subprocess.run([sys.executable, "-m", "jetarrow", *arguments], capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert meant in run.stderr
