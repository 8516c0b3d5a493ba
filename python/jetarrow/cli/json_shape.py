"""Documented form and keys of the output of `--json`, for the help, the manual and the reference page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["object", "array", "lines", "texts"]

_FORMS = {
    "object": "an object with",
    "array": "an array of objects with",
    "lines": "one object per line with",
    "texts": "an array of",
}


@dataclass(frozen=True)
class JsonShape:
    """One form of the output of a subcommand.

    Attributes:
        form: An object, an array of objects, one object per line, or an array of texts.
        keys: Keys in their order; one that ends in `?` may be absent, `a[].b` is the key `b` of the objects in `a`. For
            texts: the noun.
        when: Condition of this form, if the subcommand has several; empty otherwise.
    """

    form: Form
    keys: tuple[str, ...]
    when: str = ""

    @property
    def text(self) -> str:
        """The form as a phrase: `an object with stream, seq`."""
        phrase = f"{_FORMS[self.form]} {', '.join(self.keys)}"
        return f"{self.when}: {phrase}" if self.when else phrase


def an_object(keys: str, when: str = "") -> JsonShape:
    """Return the shape of one object.

    Args:
        keys: Its keys, separated with spaces.
        when: Condition of this form.
    """
    return JsonShape("object", tuple(keys.split()), when)


def array_of(keys: str, when: str = "") -> JsonShape:
    """Return the shape of an array of objects, as `an_object`."""
    return JsonShape("array", tuple(keys.split()), when)


def lines_of(keys: str, when: str = "") -> JsonShape:
    """Return the shape of one object per line, as `an_object`."""
    return JsonShape("lines", tuple(keys.split()), when)


def texts(noun: str, when: str = "") -> JsonShape:
    """Return the shape of an array of texts.

    Args:
        noun: The texts, in the plural.
        when: Condition of this form.
    """
    return JsonShape("texts", (noun,), when)
