"""Round trips of the types of jetarrow.js.api through a server."""

import dataclasses
import json
import socket
from datetime import UTC, datetime, timedelta

import jetarrow.js.api as api
import pytest
from jetarrow.server import NatsServer


class Wire:
    """Just enough of the NATS protocol for JSON requests."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.lines = self.sock.makefile("rb")
        self.lines.readline()
        self.sock.sendall(b'CONNECT {"verbose":false}\r\nSUB reply 1\r\n')

    def request(self, subject, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.sock.sendall(b"PUB %b reply %d\r\n%b\r\n" % (subject.encode(), len(data), data))
        head = self.lines.readline()
        assert head.startswith(b"MSG"), head
        size = int(head.split()[-1])
        return json.loads(self.lines.read(size + 2))

    def close(self):
        self.lines.close()
        self.sock.close()


@pytest.fixture(scope="module")
def wire():
    with NatsServer() as server:
        connection = Wire(server.port)
        yield connection
        connection.close()


def test_stream_round_trip_through_the_server(wire):
    config = api.StreamConfig(
        name="TRIP",
        description="d",
        subjects=["trip.>"],
        retention="limits",
        max_consumers=7,
        max_msgs=1000,
        max_bytes=10**6,
        discard="new",
        discard_new_per_subject=True,
        max_msgs_per_subject=5,
        max_msg_size=1000,
        max_age=timedelta(hours=1),
        storage="file",
        num_replicas=1,
        duplicate_window=30.5,
        allow_rollup_hdrs=True,
        first_seq=10,
        republish=api.RePublish("trip.>", "copy.>", headers_only=True),
        subject_transform=api.SubjectTransform("trip.a", "trip.b"),
        allow_direct=True,
        compression="s2",
        allow_msg_ttl=True,
        allow_msg_schedules=False,
        allow_atomic=True,
        allow_batched=True,
        metadata={"k": "v"},
        consumer_limits=api.StreamConsumerLimits(inactive_threshold=60, max_ack_pending=50),
        subject_delete_marker_ttl=5,
    )
    answer = wire.request("$JS.API.STREAM.CREATE.TRIP", config.as_dict())
    assert "error" not in answer, answer
    answer = wire.request("$JS.API.STREAM.INFO.TRIP")
    info = api.StreamInfo.from_response(answer)
    for field in dataclasses.fields(config):
        wanted = getattr(config, field.name)
        if wanted not in (None, False) and field.name != "metadata":
            assert getattr(info.config, field.name) == wanted, field.name
    # Every value of the server's answer is returned unchanged, so nothing is lost or misread.
    said = info.as_dict()
    for key, value in answer["config"].items():
        assert said["config"][key] == value, key
    for key in ("created", "ts", "state"):
        assert said[key] == answer[key], key
    assert info.created_raw == answer["created"]
    assert info.config.metadata["k"] == "v"
    assert (info.state.first_seq, info.state.last_seq) == (10, 9)

    update = wire.request("$JS.API.STREAM.UPDATE.TRIP", info.config.evolve(max_age=None).as_dict())
    assert "error" not in update, update
    assert update["config"]["max_age"] == 0


def test_consumer_round_trip_through_the_server(wire):
    wire.request("$JS.API.STREAM.CREATE.CONS", api.StreamConfig("CONS", subjects=["cons.>"]).as_dict())
    config = api.ConsumerConfig(
        name="c",
        durable_name="c",
        description="d",
        deliver_policy="by_start_time",
        opt_start_time="2024-05-01T10:00:00.123456789Z",
        ack_policy="explicit",
        max_deliver=4,
        backoff=[1, timedelta(seconds=2)],
        filter_subjects=["cons.a", "cons.b"],
        replay_policy="original",
        sample_freq="50%",
        max_waiting=9,
        max_ack_pending=11,
        headers_only=True,
        inactive_threshold=90,
        mem_storage=True,
        pause_until=datetime(2099, 1, 1, tzinfo=UTC),
        max_request_batch=10,
        max_request_expires=timedelta(seconds=7),
        max_request_max_bytes=5000,
        priority_groups=["g"],
        priority_policy="pinned_client",
        priority_timeout=8,
    )
    body = {"stream_name": "CONS", "config": config.as_dict()}
    answer = wire.request("$JS.API.CONSUMER.CREATE.CONS.c", body)
    assert "error" not in answer, answer
    info = api.ConsumerInfo.from_response(answer)
    for field in dataclasses.fields(config):
        wanted = getattr(config, field.name)
        if wanted is not None:
            assert getattr(info.config, field.name) == wanted, field.name
    said = info.as_dict()
    for key, value in answer["config"].items():
        assert said["config"][key] == value, key
    assert info.created_raw == answer["created"]
    assert info.paused
    assert info.priority_groups[0].group == "g"
    # The same configuration sent again is no change, to the nanosecond.
    body = {"stream_name": "CONS", "config": info.config.as_dict(), "action": "create"}
    assert "error" not in wire.request("$JS.API.CONSUMER.CREATE.CONS.c", body)


def unknown(value):
    """Returns the keys that are kept although the type has no field of that name."""
    return set(value.as_dict()) - {field.name for field in dataclasses.fields(value)}


def test_no_field_of_the_server_is_missing(wire):
    """The types have a field for every key of the server's answers."""
    sources = [{"name": "ORIGIN", "filter_subject": "o.a"}]
    wire.request("$JS.API.STREAM.CREATE.ORIGIN", {"name": "ORIGIN", "subjects": ["o.>"]})
    wire.request("$JS.API.STREAM.CREATE.RICH", {"name": "RICH", "sources": sources})
    wire.request("o.a", {"x": 1})
    answer = wire.request("$JS.API.STREAM.INFO.ORIGIN", {"deleted_details": True, "subjects_filter": ">"})
    info = api.StreamInfo.from_response(answer)
    envelope = {"type", "total", "offset", "limit"}
    assert unknown(info) <= envelope
    assert unknown(info.config) == set()
    assert unknown(info.state) == set()
    assert (info.state.subjects, info.state.num_subjects) == ({"o.a": 1}, 1)
    rich = api.StreamInfo.from_response(wire.request("$JS.API.STREAM.INFO.RICH"))
    assert rich.sources[0].filter_subject == "o.a"
    assert unknown(rich.sources[0]) == set()
    assert unknown(api.AccountInfo.from_response(wire.request("$JS.API.INFO"))) <= {"type"}

    wire.request("$JS.API.CONSUMER.CREATE.ORIGIN.c", {"stream_name": "ORIGIN", "config": {"name": "c"}})
    consumer = api.ConsumerInfo.from_response(wire.request("$JS.API.CONSUMER.INFO.ORIGIN.c"))
    assert unknown(consumer) <= envelope
    assert unknown(consumer.config) == set()


def test_stream_list_page(wire):
    wire.request("$JS.API.STREAM.CREATE.LISTED", {"name": "LISTED", "subjects": ["listed"]})
    page = wire.request("$JS.API.STREAM.LIST", {"offset": 0})
    listed = api.StreamsListIterator(page["offset"], page["total"], page["streams"])
    assert "LISTED" in [info.config.name for info in listed]
    assert list(listed) == []
