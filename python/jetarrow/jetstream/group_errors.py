"""Errors of consumer groups. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from jetarrow.jetstream.api_errors import Error


class GroupError(Error):
    """A verb of a partitioned consumer group failed."""

    _default = "the consumer group failed"


class GroupConfigError(GroupError):
    """The configuration of a consumer group is invalid, or its stored entry is no such configuration."""

    _default = "the configuration of the consumer group is invalid"


class GroupNotFoundError(GroupError):
    """There is no consumer group of this name for the stream."""

    _default = "there is no such consumer group: create it with js.create_consumer_group()"


class GroupMemberError(GroupError):
    """The member has no part in the group: a static group without its name, or a policy that others overwrite."""

    _default = "the group has no such member"


class GroupChangedError(GroupError):
    """The group was changed while a member ran, in a way that ends its members."""

    _default = "the group was changed while its member ran: open the member again"


class GroupPinLostError(GroupError):
    """The messages belong to another program, or to another member: the acknowledgement was not sent.

    The program was not heard of for the pinned time, stepped down, or the members have changed. The messages are
    delivered again, to the program that reads their partition.
    """

    _default = "the messages belong to another program: nothing was acknowledged, and they are delivered again there"
