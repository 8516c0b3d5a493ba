"""Errors: the tree of nats-py, messages, pickling, and no secrets."""

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jetarrow.errors as core
import jetarrow.js.errors as js
import nats.errors
import nats.js.errors
import pytest

PAIRS = [(nats.errors, core), (nats.js.errors, js)]


def classes(module: ModuleType) -> dict[str, type[BaseException]]:
    return {
        name: cls
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and issubclass(cls, BaseException) and cls.__module__ == module.__name__
    }


THEIRS = [(ours, name, cls) for theirs, ours in PAIRS for name, cls in classes(theirs).items()]
OURS = [cls for module in (core, js) for cls in classes(module).values()]


def test_error_classes_are_found() -> None:
    # pytest skips tests with an empty parameter list.
    assert len(THEIRS) > 50
    assert {name for _, name, _ in THEIRS} <= {cls.__name__ for cls in OURS}


def names(cls: type) -> list[str]:
    return [base.__name__ for base in cls.__mro__]


def make(cls: type[BaseException], **extra: object) -> BaseException:
    """An instance with the required arguments."""
    needed = {"subject": "a", "reply": "b", "sid": 3, "sub": "sub", "feature": "flying"}
    wanted = inspect.signature(cls).parameters
    return cls(**{k: v for k, v in needed.items() if k in wanted}, **extra)


@pytest.mark.parametrize(("ours", "name", "theirs"), THEIRS, ids=lambda v: v if isinstance(v, str) else "")
def test_tree_and_signatures_equal_those_of_nats_py(ours, name, theirs):
    cls = getattr(ours, name)
    # The same ancestors, in the same order; nats-py's asyncio.TimeoutError is the builtin one.
    assert [n for n in names(cls) if n in names(theirs)] == names(theirs)
    if "__init__" in vars(theirs):
        parameters = list(inspect.signature(cls.__init__).parameters.values())
        expected = list(inspect.signature(theirs.__init__).parameters.values())
        for mine, other in zip(parameters, expected, strict=False):
            assert (mine.name, mine.default, mine.kind) == (other.name, other.default, other.kind)
        assert len(parameters) >= len(expected)
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters[len(expected) :])


def test_all_is_complete():
    for module in (core, js):
        assert set(module.__all__) == set(classes(module))


@pytest.mark.parametrize("cls", OURS, ids=lambda c: f"{c.__module__}.{c.__name__}")
def test_every_class_has_a_default_text(cls):
    text = str(make(cls))
    assert text.startswith("nats: ")
    assert len(text) > len("nats: ") + 5
    without_values = (js.APIError, js.ConsumerSequenceMismatchError, js.DataLossError)
    assert "None" not in text or issubclass(cls, without_values)


@pytest.mark.parametrize("cls", OURS, ids=lambda c: f"{c.__module__}.{c.__name__}")
def test_message_replaces_default_text(cls):
    key = "description" if "message" not in inspect.signature(cls).parameters else "message"
    error = make(cls, **{key: "could not connect to 127.0.0.1:4222"})
    text = str(error)
    assert text.startswith("nats: ")
    assert "could not connect to 127.0.0.1:4222" in text
    if not isinstance(error, js.APIError):
        assert text == "nats: could not connect to 127.0.0.1:4222"


def test_message_is_accepted_by_position():
    assert str(core.NoServersError("x is down")) == "nats: x is down"
    assert str(core.NoServersError("nats: x is down")) == "nats: x is down"
    assert core.NoServersError("x is down").args == ("x is down",)
    assert core.NoServersError().args == ()
    assert js.InvalidKeyError("bad key").description == "bad key"


@pytest.mark.parametrize("cls", OURS, ids=lambda c: f"{c.__module__}.{c.__name__}")
@pytest.mark.parametrize("message", [None, "something"])
def test_errors_are_pickled_and_copied(cls, message):
    key = "description" if "message" not in inspect.signature(cls).parameters else "message"
    error = make(cls, **({key: message} if message else {}))
    error.add_note("while testing")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is cls
        assert str(twin) == str(error)
        assert twin.args == error.args
        assert twin.__dict__ == error.__dict__


def test_pickle_replaces_local_objects_by_text():
    error = core.SlowConsumerError("a", "b", 7, sub := SimpleNamespace(lock=lambda: None))
    assert error.sub is sub
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.subject, twin.reply, twin.sid) == ("a", "b", 7)
    assert isinstance(twin.sub, str)
    assert isinstance(pickle.loads(pickle.dumps(core.MsgAlreadyAckdError(lambda: None)))._msg, str)


def test_pickles_name_the_public_module():
    for cls in OURS:
        assert cls.__module__ in ("jetarrow.errors", "jetarrow.js.errors")
        assert not cls.__module__.rpartition(".")[2].startswith("_")


SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
JWT = "eyJ0eXAiOiJKV1QifQ.eyJqdGkiOiJBQkMifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "secret", "left"),
    [
        (
            "at nats://bob:s3cr3t@h1:4222, tls://alice:p@ss@h2:4222",
            "s3cr3t",
            "at nats://***@h1:4222, tls://***@h2:4222",
        ),
        ("at nats://bob:s3cr3t@h1:4222, tls://alice:p@ss@h2:4222", "p@ss", "at nats://***@h1:4222, tls://***@h2:4222"),
        ("refused nats://t0ken@h1", "t0ken", "refused nats://***@h1"),
        (f"bad seed {SEED}", SEED, "bad seed ***"),
        (f"bad jwt {JWT}", JWT, "bad jwt ***"),
    ],
)
def test_error_texts_contain_no_secrets(text, secret, left):
    for error in (core.NoServersError(text), js.Error(text), js.APIError(message=text)):
        for shown in (str(error), repr(error), repr(error.args), repr(error.__dict__), pickle.dumps(error)):
            assert secret not in str(shown)
    assert str(core.NoServersError(text)) == f"nats: {left}"


def test_timeouts_are_builtin_timeouts():
    for cls in (core.TimeoutError, core.FlushTimeoutError, core.DrainTimeoutError, js.FetchTimeoutError):
        assert isinstance(cls(), TimeoutError)
        assert isinstance(cls("too late"), core.TimeoutError)


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (503, js.ServiceUnavailableError),
        (500, js.ServerError),
        (404, js.NotFoundError),
        (400, js.BadRequestError),
        (409, js.APIError),
        (None, js.APIError),
    ],
)
def test_api_error_code_selects_class(code, cls):
    answer = {"code": code, "err_code": 10003, "description": "no", "stream": "S", "seq": 5, "new_field": 1}
    before = dict(answer)
    error = js.APIError.build(answer)
    assert type(error) is cls
    assert (error.code, error.err_code, error.description) == (code, 10003, "no")
    assert (error.stream, error.seq) == ("S", 5)
    assert answer == before
    with pytest.raises(cls) as caught:
        js.APIError.from_error(answer)
    assert type(caught.value) is cls
    if code is not None:
        with pytest.raises(getattr(nats.js.errors, cls.__name__)):
            nats.js.errors.APIError.from_error({k: v for k, v in answer.items() if k != "new_field"})


def test_api_error_code_selects_invalid_reset():
    error = js.APIError.build({"code": 400, "err_code": 10204, "description": "consumer reset"})
    assert type(error) is js.ConsumerInvalidResetError


def test_status_of_message_selects_class():
    with pytest.raises(js.ServiceUnavailableError):
        js.APIError.from_msg(SimpleNamespace(header={"Status": "503"}))
    with pytest.raises(js.APIError) as caught:
        js.APIError.from_msg(SimpleNamespace(header={"Status": "409", "Description": "Consumer Deleted"}))
    assert (caught.value.code, caught.value.description) == (409, "Consumer Deleted")
    with pytest.raises(js.APIError):
        js.APIError.from_msg(SimpleNamespace(header=None))


def test_api_error_text_has_server_response():
    answer = {"code": 404, "err_code": 10059, "description": "stream not found"}
    text = str(js.APIError.build(answer, message="stream_info('ORDERS') failed"))
    assert "stream_info('ORDERS') failed" in text
    assert "code=404 err_code=10059 description='stream not found'" in text
    assert "add_stream" in text
    with pytest.raises(nats.js.errors.APIError) as theirs:
        nats.js.errors.APIError.from_error(dict(answer))
    # nats-py's text, with the name of the subclass.
    assert str(js.APIError.build(answer)).startswith(str(theirs.value).replace("NotFound", "StreamNotFound"))


def test_api_error_classes_have_their_codes():
    assert js.NotFoundError().code == 404
    assert js.KeyNotFoundError(message="k").code == 404
    assert js.KeyWrongLastSequenceError("wrong last sequence: 3").err_code == 10071
    assert str(js.KeyWrongLastSequenceError("wrong last sequence: 3")) == "nats: wrong last sequence: 3"
    assert str(js.KeyNotFoundError(message="k")) == "nats: key not found: k"


def test_error_texts_have_attributes():
    text = str(core.UnsupportedError("fast publish", "nats-server 2.14", "server 2.10.3"))
    assert all(part in text for part in ("fast publish", "nats-server 2.14", "server 2.10.3"))

    loss = js.DataLossError(5, 90)
    assert (loss.asked, loss.available) == (5, 90)
    assert "5" in str(loss)
    assert "90" in str(loss)

    decode = js.DecodeError("not a number", seq=12, column="price")
    assert str(decode) == "nats: not a number (sequence 12, column 'price')"

    mismatch = js.ConsumerSequenceMismatchError(10, 4, 9)
    assert "5 behind" in str(mismatch)
    assert "10" in str(mismatch)

    batch = js.BatchError(errors=[core.TimeoutError("row 3 timed out"), core.TimeoutError("later")])
    assert str(batch) == "nats: 2 rows of the batch could not be published; the first: nats: row 3 timed out"
    refused = js.BatchError("atomic batch refused", code=400, err_code=10071, description="wrong last", row=4)
    assert "atomic batch refused at row 4 (code=400 err_code=10071 description='wrong last')" in str(refused)
    assert str(js.BatchError("row 4 failed", row=4)) == "nats: row 4 failed"
    assert issubclass(js.MaxAckPendingError, js.TooManyStalledMsgsError)


def test_errors_module_imports_no_native_core():
    # Without the packages' __init__ modules, which import more modules.
    code = """
import sys, types
for name, path in (("jetarrow", sys.argv[1]), ("jetarrow.js", sys.argv[2])):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [path]
before = set(sys.modules)
import jetarrow.js.errors
new = set(sys.modules) - before
print(sorted(new & {"asyncio", "dataclasses", "inspect", "ssl", "socket", "json", "logging", "pickle"}))
"""
    files = [Path(module.__file__).parent for module in (core, js)]
    command = [sys.executable, "-I", "-S", "-c", code, *map(str, files)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "[]", run.stderr
