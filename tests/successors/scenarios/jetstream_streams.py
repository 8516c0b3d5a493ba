"""Streams: creation, update, lists, purge, account information."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..case import Case


async def _filled(case: Case, js: Any, count: int = 5, **options: Any) -> Any:
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory", **options)
    for number in range(count):
        await js.publish(f"{case.name}.{number % 2}", b"%d" % number)
    return stream


async def create_returns_the_stream(case: Case) -> None:
    js = await case.context()
    made = await case.call("keywords", js.create_stream(name=case.name, subjects=[case.name]))
    case.note("name", made.name)
    case.note("info", made.info)
    config = case.jetstream.StreamConfig(name=f"{case.name}B", subjects=[f"{case.name}.b"], storage="memory")
    await case.call("object", js.create_stream(config))
    await case.call("same again", js.create_stream(config))
    config.max_msgs = 3
    await case.call("other options", js.create_stream(config))
    await case.call("overlapping subjects", js.create_stream(name=f"{case.name}C", subjects=[case.name]))
    for key, options in {
        "no name": {"subjects": ["x"]},
        "name is none": {"name": None},
        "unknown option": {"name": case.name, "nope": 1},
        "invalid name": {"name": "a.b"},
        "empty name": {"name": ""},
        "invalid value": {"name": f"{case.name}D", "retention": "nope"},
    }.items():
        await case.call(key, js.create_stream(**options))


async def create_accepts_all_options(case: Case) -> None:
    js = await case.context()
    await js.create_stream(name=f"{case.name}O", subjects=[f"{case.name}.o"], storage="memory")
    stream = case.module("jetstream.stream")
    options: dict[str, Any] = {
        **{"storage": "memory", "max_age": timedelta(hours=1), "max_bytes": 100_000, "max_consumers": 5, "max_msgs": 9},
        **{"allow_direct": True, "allow_rollup_hdrs": True, "compression": "none", "deny_delete": True},
        **{"deny_purge": False, "description": "text", "discard": "new", "discard_new_per_subject": True},
        **{"duplicate_window": timedelta(seconds=30), "first_seq": 7, "max_msg_size": 1_000, "max_msgs_per_subject": 3},
        **{"metadata": {"a": "b"}, "no_ack": False, "allow_msg_ttl": True},
        **{"subject_delete_marker_ttl": timedelta(minutes=1)},
        **{"republish": {"src": "*.a", "dest": f"{case.name}.r.{{{{wildcard(1)}}}}", "headers_only": True}},
        **{"subject_transform": stream.SubjectTransform(f"{case.name}.*", f"{case.name}.{{{{wildcard(1)}}}}.x")},
        **{"consumer_limits": {"inactive_threshold": timedelta(minutes=5), "max_ack_pending": 50}},
        **{"placement": stream.Placement(tags=[])},
    }
    options["republish"]["src"] = f"{case.name}.*"
    await case.call("options", js.create_stream(name=case.name, subjects=[f"{case.name}.*"], **options))
    await case.call(
        "mirror", js.create_stream(name=f"{case.name}M", storage="memory", mirror={"name": f"{case.name}O"})
    )
    source = stream.StreamSource(f"{case.name}O", opt_start_seq=1, filter_subject=f"{case.name}.o")
    await case.call("sources", js.create_stream(name=f"{case.name}S", storage="memory", sources=[source]))
    await case.call("as read", js.get_stream_info(f"{case.name}S"))
    for name in ("allow_atomic", "allow_batched", "allow_msg_counter", "allow_msg_schedules"):
        made = await js.create_stream(name=f"{case.name}{name}", storage="memory", **{name: True})
        case.note(name, getattr(made.info.config, name))


async def update_replaces_the_configuration(case: Case) -> None:
    js = await case.context()
    made = await _filled(case, js, description="first", max_msgs=100)
    config = made.info.config
    config.description, config.max_msgs = "second", None
    await case.call("whole configuration", js.update_stream(**config.to_request()))
    await case.call("read again", made.get_info())
    subjects = [f"{case.name}.>"]
    await case.call(
        "some options", js.update_stream(name=case.name, subjects=subjects, storage="memory", max_age=10**9)
    )
    await case.call("no storage", js.update_stream(name=case.name, subjects=subjects))
    await case.call("no subjects", js.update_stream(name=case.name, storage="memory"))
    await case.call("no name", js.update_stream(description="x"))
    await case.call("no such stream", js.update_stream(name=f"{case.name}X", storage="memory"))
    await case.call("unknown option", js.update_stream(name=case.name, storage="memory", subjects=subjects, nope=1))
    await case.call("rejected", js.update_stream(name=case.name, storage="memory", retention="workqueue"))


async def update_accepts_values_of_configurations(case: Case) -> None:
    js = await case.context()
    await _filled(case, js)
    subjects, limits = [f"{case.name}.>"], case.jetstream.StreamConsumerLimits(timedelta(minutes=1), 5)
    options = {"name": case.name, "storage": "memory", "subjects": subjects}
    await case.call("timedelta", js.update_stream(**options, max_age=timedelta(hours=1)))
    await case.call("dataclass", js.update_stream(**options, consumer_limits=limits))


async def get_and_delete(case: Case) -> None:
    js = await case.context()
    await _filled(case, js)
    await case.call("get", js.get_stream(case.name))
    await case.call("info", js.get_stream_info(case.name))
    await case.call("delete", js.delete_stream(case.name))
    await case.call("delete again", js.delete_stream(case.name))
    await case.call("get deleted", js.get_stream(case.name))
    await case.call("info of deleted", js.get_stream_info(case.name))


async def info_has_subjects_and_deleted_messages(case: Case) -> None:
    js = await case.context()
    made = await _filled(case, js)
    await made.delete_message(2)
    case.note("cached", made.info)
    await case.call("all", made.get_info())
    case.note("refreshed", made.info)
    await case.call("no details", made.get_info(deleted_details=False))
    await case.call("subjects", made.get_info(subjects_filter=">", deleted_details=False))
    await case.call("one subject", js.get_stream_info(case.name, subjects_filter=f"{case.name}.1"))
    await case.call("offset", js.get_stream_info(case.name, subjects_filter=">", offset=1))
    await case.call("details", js.get_stream_info(case.name, deleted_details=True))
    case.note("new handle", case.module("jetstream.stream").Stream(js, case.name).info)


async def lists_of_streams(case: Case) -> None:
    server = case.server(jetstream=True)
    js = case.jetstream.new(await case.connect(server.url))
    case.note("no names", [name async for name in js.stream_names()])
    case.note("no streams", [info async for info in js.list_streams()])
    for number in range(3):
        await js.create_stream(name=f"N{number}", subjects=[f"a.{number}"], storage="memory")
    case.note("names", sorted([name async for name in js.stream_names()]))
    case.note("names of a subject", [name async for name in js.stream_names(subject="a.1")])
    case.note("names of a wildcard", sorted([name async for name in js.stream_names("a.*")]))
    case.note("names of another subject", [name async for name in js.stream_names("b")])
    found = [info async for info in js.list_streams()]
    case.note("streams", sorted(found, key=lambda info: info.config.name))
    case.note("streams of a subject", [info.config.name async for info in js.list_streams("a.2")])


async def lists_with_several_pages(case: Case) -> None:
    server = case.server(jetstream=True)
    js = case.jetstream.new(await case.connect(server.url))
    for number in range(300):
        await js.create_stream(name=f"N{number}", storage="memory")
    names = [name async for name in js.stream_names()]
    case.note("names", (len(names), len(set(names))))
    infos = [info.config.name async for info in js.list_streams()]
    case.note("streams", (len(infos), sorted(infos) == sorted(names)))
    first = [name async for name in js.list_streams()][:1]
    case.note("first", len(first))
    stream = await js.get_stream("N0")
    for number in range(300):
        await stream.create_consumer(name=f"c{number}")
    names = [name async for name in js.consumer_names("N0")]
    case.note("consumer names", (len(names), len(set(names))))
    case.note("consumers", sorted([info.name async for info in js.list_consumers("N0")]) == sorted(names))


async def purge(case: Case) -> None:
    js = await case.context()
    made = await _filled(case, js, 10)
    for key, options in {
        "keep": {"keep": 8},
        "sequence": {"sequence": 5},
        "filter": {"filter": f"{case.name}.1"},
        "filter and keep": {"filter": f"{case.name}.0", "keep": 1},
        "keep and sequence": {"keep": 1, "sequence": 8},
        "all": {},
    }.items():
        await case.call(key, made.purge(**options))
        case.note(f"after {key}", (await made.get_info()).state)
    sealed = await js.create_stream(name=f"{case.name}D", storage="memory", deny_purge=True)
    await case.call("denied", sealed.purge())
    await js.delete_stream(case.name)
    await case.call("no such stream", made.purge())


async def account_information(case: Case) -> None:
    server = case.server(jetstream=True)
    js = case.jetstream.new(await case.connect(server.url))
    await case.call("empty", js.account_info())
    await js.create_stream(name="A", subjects=["a"], storage="memory")
    await js.publish("a", b"x")
    await case.call("one stream", js.account_info())
    strict = case.jetstream.new(js.client, strict=True)
    await case.call("strict", strict.account_info())


TIERS = """jetstream {}
accounts {
  A { users: [{user: "a", password: "x"}], jetstream { max_memory: 1000000, max_streams: 3 } }
  B { users: [{user: "b", password: "x"}] }
}"""


async def account_without_jetstream(case: Case) -> None:
    plain = case.jetstream.new(await case.connect(case.server().url))
    await case.call("server", plain.account_info())
    await case.call("create", plain.create_stream(name="A"))
    await case.call("names", anext(plain.stream_names()))
    server = case.server(config=TIERS)
    for user in "ab":
        js = case.jetstream.new(await case.connect(server.url, user=user, password="x"))
        await case.call(f"account of {user}", js.account_info())
        await case.call(f"create of {user}", js.create_stream(name="A", storage="memory"))
        await case.call(f"create two of {user}", js.create_stream(name="B", max_bytes=10, storage="memory"))


async def prefix_domain_and_strict(case: Case) -> None:
    server = case.server(config="jetstream { domain: hub }")
    client = await case.connect(server.url)
    for key, options in {
        "default": {},
        "domain": {"domain": "hub"},
        "prefix": {"prefix": "$JS.hub.API"},
        "domain before prefix": {"domain": "hub", "prefix": "x"},
    }.items():
        js = case.jetstream.new(client, **options)
        case.note(key, (js.api_prefix, js.strict, js.client is client))
        await case.call(f"create with {key}", js.create_stream(name=case.name, subjects=[case.name], storage="memory"))
        case.note(f"ack with {key}", await js.publish(case.name, b""))
    await case.call("other domain", case.jetstream.new(client, domain="leaf").account_info())
    strict = case.jetstream.new(client, strict=True)
    case.note("strict", strict.strict)
    await case.call("strict stream", strict.get_stream(case.name))
    await case.call("strict names", anext(strict.list_streams()))
    case.note("positional", case.jetstream.new(client, "$JS.API", "hub", True).api_prefix)
    case.note("class", case.jetstream.JetStream(client, domain="hub").api_prefix)
