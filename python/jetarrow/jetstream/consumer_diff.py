"""A consumer that is there already, compared with what is asked for; and how many acks a new one waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import APIError, Error
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models.values import epoch_ns

# Of consumers that `pull_subscribe` makes: the server's 1,000 would end every batch there.
BATCH_ACK_PENDING = 100_000
# The limit of the account, or of the stream's consumers, is lower.
_TOO_MUCH_ACK_PENDING = 10121

# What says which consumer it is, not what it does.
_NAMES = {"name", "durable_name"}
_FILTERS = {"filter_subject", "filter_subjects"}


def _asked(config: models.ConsumerConfig, params: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that somebody asked for: given by name, or not the default of `ConsumerConfig`."""
    default = models.ConsumerConfig()
    found = {}
    for field in fields(config):
        value = getattr(config, field.name)
        named = params.get(field.name) is not None
        if field.name not in _NAMES and value is not None and (named or value != getattr(default, field.name)):
            found[field.name] = value
    return found


def _same(name: str, has: Any, wants: Any) -> bool:
    if name == "metadata":
        # The server adds entries of its own.
        return all((has or {}).get(key) == value for key, value in wants.items())
    if has is None or isinstance(wants, bool):
        # What is not set is off: the server leaves it out.
        return (has or 0) == (wants or 0)
    if name == "pause_until":
        return epoch_ns(has) == epoch_ns(wants)
    return bool(has == wants)


def config_differences(
    has: models.ConsumerConfig, config: models.ConsumerConfig, params: Mapping[str, Any], subject: str
) -> dict[str, tuple[Any, Any]]:
    """What the consumer has and what is asked for, by field, where they are not the same.

    A consumer without a filter gives every subject, and is what anybody may ask for who only names the stream's.

    Args:
        has: The consumer's configuration.
        config: What is asked for.
        params: The fields of it that were given by name.
        subject: The subject that was asked for; "" is any.
    """
    wanted = _asked(config, params)
    found = {
        name: (getattr(has, name), value)
        for name, value in wanted.items()
        if name not in _FILTERS and not _same(name, getattr(has, name), value)
    }
    filters = sorted(has.filter_subjects or ([has.filter_subject] if has.filter_subject else []))
    named = [wanted["filter_subject"]] if "filter_subject" in wanted else wanted.get("filter_subjects")
    asked = sorted(named or ([subject] if subject else []))
    if asked and asked != filters and (filters or named):
        found["filter_subjects"] = (filters, asked)
    return found


async def reconcile(
    manage: Management, info: models.ConsumerInfo, changes: Mapping[str, tuple[Any, Any]], *, update: bool
) -> models.ConsumerInfo:
    """The consumer as it is to be used: as it is, or changed where that was asked for.

    Args:
        manage: For the change.
        info: The consumer.
        changes: As `config_differences` finds them.
        update: Whether it may be changed.

    Raises:
        Error: It differs, and is not to be changed.
    """
    if not changes:
        return info
    if update:
        fields = {name: wanted for name, (_, wanted) in changes.items()}
        if len(fields.get("filter_subjects", ())) == 1:
            fields["filter_subject"] = fields.pop("filter_subjects")[0]
        return await manage.update_consumer(info.stream_name, name=info.name, **fields)
    listed = "; ".join(f"{name} is {_show(has)}, not {_show(wanted)}" for name, (has, wanted) in changes.items())
    subject = "the subject does not match; " if "filter_subjects" in changes else ""
    raise Error(
        f"consumer {info.name!r} of stream {info.stream_name!r} is there and differs from what is asked for:"
        f" {subject}{listed}; update=True changes it"
    )


def _show(value: Any) -> str:
    value = getattr(value, "value", value)
    if isinstance(value, list):
        return ", ".join(map(repr, value)) or "not set"
    return "not set" if value is None else repr(value)


async def create_for_batches(manage: Management, stream: str, config: models.ConsumerConfig) -> models.ConsumerInfo:
    """Makes a consumer whose ack window fits batches, as far as the server allows and nothing else was asked for."""
    if config.max_ack_pending is None and config.ack_policy not in (models.AckPolicy.NONE, None):
        try:
            return await manage.add_consumer(stream, config.evolve(max_ack_pending=BATCH_ACK_PENDING))
        except APIError as error:
            if error.err_code != _TOO_MUCH_ACK_PENDING:
                raise
    return await manage.add_consumer(stream, config)
