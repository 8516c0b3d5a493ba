"""`jetarrow bench`: the limit of a row, decided from made-up measurements."""

from __future__ import annotations

from typing import Any

import pytest
from jetarrow.cli import bench_limits, bench_measure, bench_meters, bench_rows
from jetarrow.cli.bench_limits import Evidence, decide
from jetarrow.cli.bench_meters import Cpu, Link, ServerCpu

IDLE: dict[str, Any] = {
    "seconds": 1.0,
    "is_serial": False,
    "thread": 0.2,
    "process": 0.3,
    "round_trips": 0.0,
    "bandwidth": 0.1,
}


def limit_of(**changes: Any) -> str:
    return decide(Evidence(**{**IDLE, **changes})).name


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, "not client or link"),
        ({"thread": 0.9, "process": 0.95}, "client CPU"),
        # One thread is not busy, but threads that wait for each other may be.
        ({"thread": 0.6, "process": 0.9}, "unknown"),
        ({"thread": 0.4, "process": 0.49}, "not client or link"),
        ({"thread": 0.4, "process": 0.5}, "unknown"),
        ({"bandwidth": 0.9}, "link"),
        ({"bandwidth": 0.6}, "unknown"),
        # Faster than the measurement of the link, so that proves nothing.
        ({"bandwidth": 1.3}, "unknown"),
        ({"bandwidth": None}, "unknown"),
        ({"round_trips": 0.6}, "link"),
        ({"thread": 0.9, "process": 0.95, "bandwidth": 0.9}, "client CPU and link"),
        # A processor of the server, with neither client nor link busy.
        ({"server": 0.9, "server_cores": 4}, "server"),
        ({"server": 0.5, "server_cores": 4}, "not client or link"),
        # A busy server is a limit beside a busy client if all of its processors are.
        ({"thread": 0.9, "process": 0.95, "server": 3.9, "server_cores": 4}, "client CPU and server"),
        ({"thread": 0.9, "process": 0.95, "server": 1.0, "server_cores": 4}, "client CPU"),
        ({"seconds": 0.01, "thread": 1.0}, "unknown"),
    ],
)
def test_limit_of_a_row_with_many_messages_in_flight(changes: dict[str, Any], limit: str) -> None:
    assert limit_of(**changes) == limit


@pytest.mark.parametrize(
    ("client", "link", "server", "limit"),
    [
        (0.6, 0.2, None, "client CPU"),
        (0.2, 0.6, None, "link"),
        (0.2, 0.2, None, "not client or link"),
        (0.2, 0.2, 0.6, "server"),
        # The server waits for its disk.
        (0.2, 0.2, 0.1, "not client or link"),
        (0.45, 0.40, None, "client CPU and link"),
        (0.45, 0.15, 0.39, "client CPU and server"),
        (0.45, 0.15, None, "unknown"),
        (0.45, None, None, "unknown"),
    ],
)
def test_limit_of_a_row_whose_messages_wait_for_each_other(
    client: float, link: float | None, server: float | None, limit: str
) -> None:
    more = {"bandwidth": None, "server_cores": None if server is None else 4}
    assert limit_of(is_serial=True, process=client, round_trips=link, server=server, **more) == limit


def test_reason_has_the_measured_parts() -> None:
    found = decide(Evidence(**{**IDLE, "waiting": 0.2, "server": 1.5, "server_cores": 2}))
    assert found.reason == (
        "busiest client thread 20 %; client CPU 30 %; of it 20 % waiting for a processor; 10 % of the link's bytes/s;"
        " round trips 0 %; server CPU 150 % of 2 x 100 %"
    )


def a_run(**changes: Any) -> bench_rows.Run:
    run = bench_rows.Run(None, None, "N", b"x" * 100, 1000, 1.0, lambda done: None)  # type: ignore[arg-type]
    run.start, run.end = 10.0, 12.0
    run.moved = {"out_bytes": 0, "out_msgs": 0, "in_bytes": 0, "in_msgs": 0}
    for name, value in changes.items():
        setattr(run, name, value)
    return run


def row_of(name: str) -> bench_rows.Row:
    return next(row for row in bench_rows.ROWS if row.name == name)


LINK = Link(round_trip=0.010, client=0.002, up=1000.0, down=10_000.0)


def test_parts_are_relative_to_the_time_of_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_measure, "_processors", lambda: 4)
    moved = {"out_bytes": 1000, "out_msgs": 10, "in_bytes": 500, "in_msgs": 10}
    run = a_run(cpu=Cpu(process=1.0, waiting=0.2, thread=0.8), other_cpu=0.4, round_trips=50, moved=moved)
    found = bench_measure.evidence_of(row_of("publish_batch"), run, LINK, (1.5, 2))
    assert found.seconds == 2.0
    assert not found.is_serial
    assert found.thread == pytest.approx(0.4)
    assert found.process == pytest.approx(0.8)
    assert found.waiting == pytest.approx(0.1)
    # Without the client's part of each round trip.
    assert found.round_trips == pytest.approx(50 * 0.008 / 2)
    # Payloads and the protocol around them, on the way that is nearer to its rate.
    assert found.bandwidth == pytest.approx((1000 + 10 * 61) / 2 / 1000)
    assert (found.server, found.server_cores) == (1.5, 2)


def test_all_processors_busy_count_as_a_busy_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_measure, "_processors", lambda: 2)
    run = a_run(cpu=Cpu(process=3.6, waiting=0.0, thread=1.0))
    assert bench_measure.evidence_of(row_of("publish_batch"), run, LINK, None).thread == pytest.approx(0.9)


def test_bandwidth_is_unknown_if_one_way_could_not_be_measured() -> None:
    link = Link(round_trip=0.01, client=0.0, up=None, down=1000.0)
    assert bench_measure.evidence_of(row_of("publish_batch"), a_run(), link, None).bandwidth is None


def advice(limit: str, parts: tuple[str, ...], can_ask: bool = False, slow: bool = False, **changes: Any) -> str:
    found = bench_limits.Limit(limit, "", parts, slow)
    return bench_measure.advice_of(row_of("publish"), found, Evidence(**{**IDLE, **changes}), can_ask=can_ask)


def test_advice_names_the_change_for_the_limit() -> None:
    neither = "not client or link"
    assert advice("client CPU", ("client CPU",)) == "use publish_batch, publisher or many tasks"
    assert advice("client CPU", ("client CPU",), waiting=0.5).startswith("free processors of this machine")
    assert advice("link", ("link",), slow=True).startswith("send fewer bytes")
    assert "fewer messages wait for a round trip" in advice("link", ("link",))
    assert "faster server" in advice("server", ("server",))
    assert "--system-context" in advice(neither, (neither,))
    assert "raise --msgs" in advice(neither, (neither,), can_ask=True)
    assert "--storage memory" in advice(neither, (neither,), can_ask=True, server=0.2)
    assert advice("unknown", ()) == "raise --msgs and --seconds, and repeat"
    assert "free processors" in advice("unknown", (), waiting=0.5)


def test_server_cpu_counts_readings_of_the_row_alone() -> None:
    readings = iter([(0.1, 2), (0.75, 2), (0.5, 2), (0.7, 2)])
    cpu = ServerCpu(lambda server: next(readings))
    cpu._samples = [(at, *next(readings)) for at in (10.0, 12.5, 13.0, 15.0)]
    # The server's values are up to two seconds old.
    assert cpu.between(10.0, 14.0) == (0.625, 2)
    assert cpu.between(10.0, 12.0) is None
    assert cpu.between(16.0, 20.0) is None


def spin(seconds: float) -> None:
    clock = bench_meters.CpuClock()
    while clock.read().process < seconds:
        pass


def test_cpu_clock_finds_the_busiest_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    clock = bench_meters.CpuClock()
    done, release = threading.Event(), threading.Event()

    def work() -> None:
        spin(0.1)
        done.set()
        release.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    assert done.wait(30)
    found = clock.read()
    release.set()
    thread.join()
    assert found.process >= 0.1
    assert found.thread is not None
    if bench_meters._thread_times():
        assert 0.08 <= found.thread <= found.process + found.waiting + 0.05
    # Without the files of Linux: the thread that reads the clock, which only waited.
    monkeypatch.setattr(bench_meters, "_thread_times", dict)
    clock = bench_meters.CpuClock()
    spin(0.05)
    found = clock.read()
    assert found.waiting == 0
    assert found.thread is not None
    assert 0.04 <= found.thread <= found.process + 0.01
