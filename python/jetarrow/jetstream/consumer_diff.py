"""Comparison of an existing consumer's configuration with the requested one, and creation for batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import APIError, Error
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models.values import epoch_ns

# `max_ack_pending` of consumers that `pull_subscribe` creates; the server's default of 1,000 would limit every batch.
BATCH_ACK_PENDING = 100_000
# err_code: the limit of the account, or of the stream's consumers, is lower.
_TOO_MUCH_ACK_PENDING = 10121

# Fields that identify a consumer.
_NAMES = {"name", "durable_name"}
_FILTERS = {"filter_subject", "filter_subjects"}


def _asked(config: models.ConsumerConfig, params: Mapping[str, Any]) -> dict[str, Any]:
    """The requested fields: those given by name, and those that differ from the default of `ConsumerConfig`."""
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
        # The server adds entries.
        return all((has or {}).get(key) == value for key, value in wants.items())
    if has is None or isinstance(wants, bool):
        # The server omits fields that are off.
        return (has or 0) == (wants or 0)
    if name == "pause_until":
        return epoch_ns(has) == epoch_ns(wants)
    return bool(has == wants)


def config_differences(
    has: models.ConsumerConfig, config: models.ConsumerConfig, params: Mapping[str, Any], subject: str
) -> dict[str, tuple[Any, Any]]:
    """The fields that differ, with the existing and the requested value.

    A consumer without a filter matches every requested subject that is not given as a filter by name.

    Args:
        has: The consumer's configuration.
        config: The requested configuration.
        params: The fields of it that were given by name.
        subject: The requested subject; "" is any.
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
    """Updates the consumer if it differs and `update` is True.

    Args:
        manage: The verbs of management.
        info: The consumer.
        changes: The result of `config_differences`.
        update: Whether it may be changed.

    Raises:
        Error: It differs, and `update` is False.
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
        f"could not bind consumer {info.name!r} of stream {info.stream_name!r}: it differs from the request:"
        f" {subject}{listed}; pass update=True to change it"
    )


def _show(value: Any) -> str:
    value = getattr(value, "value", value)
    if isinstance(value, list):
        return ", ".join(map(repr, value)) or "not set"
    return "not set" if value is None else repr(value)


async def create_for_batches(manage: Management, stream: str, config: models.ConsumerConfig) -> models.ConsumerInfo:
    """Creates a consumer, with a `max_ack_pending` for batches if none was requested and the server allows it."""
    if config.max_ack_pending is None and config.ack_policy not in (models.AckPolicy.NONE, None):
        try:
            return await manage.add_consumer(stream, config.evolve(max_ack_pending=BATCH_ACK_PENDING))
        except APIError as error:
            if error.err_code != _TOO_MUCH_ACK_PENDING:
                raise
    return await manage.add_consumer(stream, config)
