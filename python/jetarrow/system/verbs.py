"""Parts that the verbs of `nc.system()` share: options, pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jetarrow.core.suggestions import check_keywords, did_you_mean, keywords_of, nearest_name
from jetarrow.jetstream.models.base import Base
from jetarrow.system.requests import Selection, ServerAnswer, ServerRequests, selection

_T = TypeVar("_T", bound=Base)

_FILTERS = keywords_of(selection)
# Entries of one page; the default of the server.
_PAGE = 1024


async def add_pages(
    requests: ServerRequests, verb: str, answer: ServerAnswer[_T], *, options: Mapping[str, Any], entries: str
) -> None:
    """Adds the pages after the first one to an answer.

    Args:
        requests: The connection.
        verb: Last token of the request's subject.
        answer: The answer with the first page, which is changed.
        options: The request of the first page.
        entries: The field with the entries.
    """
    first: Any = answer.data
    found = list(getattr(first, entries) or ())
    start = int(options.get("offset", 0))
    while found and start + len(found) < first.total:
        asked = {**options, "offset": start + len(found), "limit": _PAGE}
        page = await requests.one(verb, answer.server.id, asked, type(answer.data))
        more = getattr(page.data, entries)
        if not more:
            break
        found += more
    setattr(first, entries, found)


def chosen_by(verb: Callable[..., Any], filters: Mapping[str, Any]) -> Selection:
    """The selection of a verb's filters.

    Args:
        verb: The method.
        filters: The given keywords that are not parameters of the method.

    Raises:
        TypeError: A keyword is unknown; the text has the nearest one.
        ValueError: Filters exclude each other.
    """
    known = [name for name in keywords_of(verb) if name != "filters"]
    check_keywords(verb.__name__, filters, _FILTERS, known)
    return selection(**filters)


def given(**options: Any) -> dict[str, Any]:
    """The options of a request that are not the server's defaults."""
    return {name: value for name, value in options.items() if value is not None and value is not False and value != 0}


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """The value of an option.

    Raises:
        ValueError: It is not one of the known values; the text has the nearest one.
    """
    if value not in known:
        near = did_you_mean(nearest_name(str(value), known))
        raise ValueError(f"{name}={value!r} is not one of {', '.join(known)}{near}")
    return value
