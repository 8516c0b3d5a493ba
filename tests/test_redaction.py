"""A failed connect shows no password, token, seed or JWT, whatever characters these contain (Hypothesis)."""

from __future__ import annotations

import pickle
import traceback
from typing import Any
from urllib.parse import quote

import jetarrow
import jetarrow.sync
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from jetarrow.core.options import server_list

from tests.strategies import bounded

# The middle of each secret; the text before and after it is drawn.
HIDDEN = "hunter2"
# Any characters except control characters and surrogates; those with a meaning in URLs are more frequent.
AROUND = st.text(st.sampled_from("/:@?#%[],; \\'\"+&=é") | st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)
SECRETS = st.builds(lambda before, after: f"{before}{HIDDEN}{after}", AROUND, AROUND)
BASE32 = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=56, max_size=56)


def everything_about(error: BaseException) -> str:
    chain = "".join(traceback.format_exception(error))
    return "\n".join((repr(error), str(error), repr(error.args), repr(vars(error)), chain, repr(pickle.dumps(error))))


def refused(*args: Any, **options: Any) -> str:
    """Returns all text of a failed connect: that of its error, and the reprs of the objects."""
    nc = jetarrow.sync.Client()
    try:
        nc.connect(*args, allow_reconnect=False, connect_timeout=1, **options)
    except Exception as error:
        event(type(error).__name__)
        found = everything_about(error)
    else:
        raise AssertionError("it connected")
    return "\n".join((found, repr(nc), repr(nc.last_error), repr(options.get("user_credentials"))))


def test_password_in_address_is_redacted(closed_port: int) -> None:
    @bounded(80)
    @given(SECRETS, st.booleans(), st.sampled_from(["nats", "tls", "ws", "http", ""]), st.booleans())
    @example(f"a/{HIDDEN}", False, "nats", True)
    @example(f"{HIDDEN},b", False, "nats", True)
    @example(f"{HIDDEN} b", False, "nats", False)
    def is_not_shown(secret: str, quoted: bool, scheme: str, user: bool) -> None:
        written = quote(secret, safe="") if quoted else secret
        before = f"{scheme}://" if scheme else ""
        url = f"{before}{'anna:' if user else ''}{written}@127.0.0.1:{closed_port}"
        assert HIDDEN not in refused(url)
        assert HIDDEN not in refused([url, f"nats://127.0.0.1:{closed_port}"])

    is_not_shown()


def test_secret_in_option_is_redacted(closed_port: int) -> None:
    url = f"nats://127.0.0.1:{closed_port}"

    @bounded(60)
    @given(SECRETS, st.sampled_from(["password", "token", "nkeys_seed_str", "user_credentials"]))
    def is_not_shown(secret: str, option: str) -> None:
        given: dict[str, Any] = {option: secret}
        if option == "password":
            given["user"] = "anna"
        if option == "user_credentials":
            given[option] = jetarrow.aio.client.RawCredentials(secret)
        assert HIDDEN not in refused(url, **given)

    is_not_shown()


@bounded(200)
@given(AROUND, st.sampled_from("ACNOUX"), BASE32, AROUND)
def test_seeds_and_jwts_in_error_texts_are_redacted(before: str, kind: str, body: str, after: str) -> None:
    """A secret in a text from elsewhere is removed when the text becomes part of an error."""
    seed, jwt = f"S{kind}{body}", f"eyJ{body}.{body}.{body}"
    for secret in (seed, jwt):
        error = jetarrow.errors.Error(f"{before} {secret} {after}")
        assert body not in everything_about(error)


def test_token_with_a_comma_is_refused() -> None:
    """Split at the comma it would be two addresses, and an error would name the first one as a host."""
    for text in (f"nats://{HIDDEN},b@127.0.0.1", f"{HIDDEN},b@127.0.0.1", f"nats://h,tls://{HIDDEN},anna:b@127.0.0.1"):
        with pytest.raises(jetarrow.errors.BadAddressError) as caught:
            server_list(text)
        assert HIDDEN not in everything_about(caught.value)
    lists = ("nats://a:b@h1,nats://h2", "nats://h1,nats://a:b@h2", "a:b@h1,c:d@h2,h3", "a,b:1,[::1]:2")
    for addresses in lists:
        assert server_list(addresses) == addresses.split(",")
