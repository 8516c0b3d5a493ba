"""Every error code of nats-server has a class, the name of its object and a remedy."""

from __future__ import annotations

import csv
import pickle
import re
from pathlib import Path
from typing import NamedTuple

import jetarrow.js.errors as js
import pytest
from jetarrow.jetstream.api_requests import describe_request
from jetarrow.jetstream.remedies import REMEDIES, remedy_of
from jetarrow.js.api import ErrorCode


class Code(NamedTuple):
    """A row of the server's list."""

    err_code: int
    code: int
    constant: str


def server_codes() -> list[Code]:
    """The codes, HTTP-like statuses and names of server/errors.json of nats-server 2.15.1."""
    with (Path(__file__).parent / "server_error_codes.csv").open() as file:
        return [Code(int(row["err_code"]), int(row["code"]), row["constant"]) for row in csv.DictReader(file)]


CODES = server_codes()
BY_STATUS = {
    400: js.BadRequestError,
    404: js.NotFoundError,
    409: js.APIError,
    412: js.APIError,
    429: js.TooManyRequestsError,
    500: js.ServerError,
    503: js.ServiceUnavailableError,
}
SPECIAL = {
    "JSClusterNotAvailErr": js.ServiceUnavailableError,
    "JSConsumerAlreadyExists": js.ConsumerExistsError,
    "JSConsumerExistingActiveErr": js.ConsumerExistsError,
    "JSConsumerInvalidResetErr": js.ConsumerInvalidResetError,
    "JSConsumerNameExistErr": js.ConsumerExistsError,
    "JSConsumerNotFoundErr": js.ConsumerNotFoundError,
    "JSNoAccountErr": js.JetStreamNotEnabledError,
    "JSNoMessageFoundErr": js.MessageNotFoundError,
    "JSNotEnabledErr": js.JetStreamNotEnabledError,
    "JSNotEnabledForAccountErr": js.JetStreamNotEnabledError,
    "JSStreamHeaderExceedsMaximumErr": js.MessageTooLargeError,
    "JSStreamMessageExceedsMaximumErr": js.MessageTooLargeError,
    "JSStreamNameExistErr": js.StreamExistsError,
    "JSStreamNotFoundErr": js.StreamNotFoundError,
    "JSStreamSubjectOverlapErr": js.SubjectOverlapError,
    "JSStreamWrongLastMsgIDErrF": js.WrongLastSequenceError,
    "JSStreamWrongLastSequenceConstantErr": js.WrongLastSequenceError,
    "JSStreamWrongLastSequenceErrF": js.WrongLastSequenceError,
}


def test_list_of_codes_is_the_servers() -> None:
    assert len(CODES) == 227
    assert {row.err_code for row in CODES} == {int(code) for code in ErrorCode} == set(REMEDIES)
    assert set(SPECIAL) <= {row.constant for row in CODES}


@pytest.mark.parametrize("row", CODES, ids=lambda row: row.constant)
def test_code_has_class_object_and_remedy(row: Code) -> None:
    consumer = "CONSUMER" in ErrorCode(row.err_code).name
    verb, named = ("CONSUMER.CREATE.ORDERS.billing", "'billing'") if consumer else ("STREAM.UPDATE.ORDERS", "'ORDERS'")
    request = describe_request(verb)
    answer = {"code": row.code, "err_code": row.err_code, "description": "of the server"}
    error = js.APIError.build(
        {**answer, "stream": request.stream, "consumer": request.consumer or None}, message=request.text
    )
    assert type(error) is SPECIAL.get(row.constant, BY_STATUS[row.code])
    # `except` clauses written for nats-py catch it.
    assert isinstance(error, BY_STATUS[row.code])
    assert error.stream == "ORDERS"
    text = str(error)
    assert text.startswith(f"nats: {request.text} (")
    assert named in text
    assert f"err_code={row.err_code} " in text
    remedy = REMEDIES[row.err_code]
    assert text.endswith(f"; {remedy}")
    assert text.count("'ORDERS'") == 1
    assert str(pickle.loads(pickle.dumps(error))) == text


@pytest.mark.parametrize("row", CODES, ids=lambda row: row.constant)
def test_remedy_is_one_sentence(row: Code) -> None:
    remedy = REMEDIES[row.err_code]
    assert 10 < len(remedy) <= 160
    assert not remedy.endswith(".")
    assert remedy[0].islower() or remedy.startswith(("Nats-", "`"))
    assert not re.search(r"\bplease\b|  ", remedy)


@pytest.mark.parametrize(
    ("description", "cls", "setting"),
    [
        ("maximum messages exceeded", js.StreamFullError, "max_msgs "),
        ("maximum bytes exceeded", js.StreamFullError, "max_bytes "),
        ("maximum messages per subject exceeded", js.StreamFullError, "max_msgs_per_subject "),
        ("no space left on device", js.ServiceUnavailableError, "free space"),
        ("something new", js.ServiceUnavailableError, "store_dir"),
    ],
)
def test_store_failure_names_the_limit(description: str, cls: type[js.APIError], setting: str) -> None:
    error = js.APIError.build({"code": 503, "err_code": 10077, "description": description, "stream": "ORDERS"})
    assert type(error) is cls
    assert isinstance(error, js.ServiceUnavailableError)
    assert "stream='ORDERS'" in str(error)
    assert setting in str(error).rpartition(";")[2]


def test_unknown_code_of_a_newer_server_has_the_class_of_its_status() -> None:
    error = js.APIError.build({"code": 400, "err_code": 19999, "description": "new"})
    assert type(error) is js.BadRequestError
    assert remedy_of(19999, "new") is None
    # A known err_code under another status keeps the class of the status.
    assert type(js.APIError.build({"code": 409, "err_code": 10059})) is js.APIError


def test_batch_error_has_remedy_and_stream() -> None:
    error = js.BatchError("rejected", code=503, err_code=10077, description="maximum bytes exceeded", stream="ORDERS")
    assert "stream='ORDERS'" in str(error)
    assert str(error).endswith("max_bytes (update_stream)")


@pytest.mark.parametrize(
    ("verb", "body", "text"),
    [
        ("STREAM.CREATE.S", {}, "could not create stream 'S'"),
        ("STREAM.MSG.GET.S", {"seq": 77}, "could not read message 77 of stream 'S'"),
        ("STREAM.MSG.GET.S", {"last_by_subj": "a.b"}, "could not read the last message of subject 'a.b' of stream 'S'"),
        (
            "STREAM.MSG.GET.S",
            {"next_by_subj": "a.b", "seq": 5},
            "could not read the message of subject 'a.b' at or after sequence 5 of stream 'S'",
        ),
        ("STREAM.MSG.DELETE.S", {"seq": 5}, "could not delete message 5 of stream 'S'"),
        ("DIRECT.GET.S.a.b", {}, "could not read the last message of subject 'a.b' of stream 'S'"),
        ("CONSUMER.CREATE.S", {"config": {"durable_name": "c"}}, "could not create consumer 'c' of stream 'S'"),
        ("CONSUMER.CREATE.S", {"config": {}}, "could not create a consumer of stream 'S'"),
        ("CONSUMER.CREATE.S.c.a.>", {"action": "update"}, "could not update consumer 'c' of stream 'S'"),
        ("CONSUMER.NAMES.S", {}, "could not list the consumers of stream 'S'"),
        ("STREAM.NAMES", {}, "could not list the streams"),
        ("META.LEADER.STEPDOWN", {}, "META.LEADER.STEPDOWN failed"),
    ],
)
def test_request_in_words_names_its_objects(verb: str, body: dict[str, object], text: str) -> None:
    assert describe_request(verb, body).text == text


@pytest.mark.parametrize(
    ("description", "setting"),
    [
        ("Exceeded MaxRequestBatch of 10", "max_request_batch"),
        ("Exceeded MaxRequestExpires of 1s", "max_request_expires"),
        ("Exceeded MaxRequestMaxBytes of 99", "max_request_max_bytes"),
        ("Exceeded MaxWaiting", "max_waiting"),
        ("Consumer is push based", "subscribe_bind"),
    ],
)
def test_status_of_a_pull_request_has_remedy(description: str, setting: str) -> None:
    error = js.APIError.build({"code": 409, "err_code": 0, "description": description})
    error = error.about("could not fetch from consumer 'c' of stream 'S'", stream="S", consumer="c")
    assert str(error).startswith("nats: could not fetch from consumer 'c' of stream 'S' (code=409 ")
    assert setting in str(error).rpartition(";")[2]
    assert (error.stream, error.consumer) == ("S", "c")
    # The names that an error has are kept.
    assert str(error.about("later", stream="T")).startswith("nats: could not fetch")
    assert error.stream == "S"
