"""Remedies for errors of messages: a publish that a stream rejects, reads and deletes of a message."""

from __future__ import annotations

# err_code under which the server reports that a stream could not store a message, whatever the cause.
STORE_FAILED = 10077

_FULL = 'delete messages (purge_stream), set discard="old", or raise'
# Descriptions of STORE_FAILED (server/store.go) for streams with discard "new" that have reached a limit.
STREAM_FULL = {
    "maximum messages exceeded": f"the stream is full: {_FULL} max_msgs (update_stream)",
    "maximum bytes exceeded": f"the stream is full: {_FULL} max_bytes (update_stream)",
    "maximum messages per subject exceeded": (
        "the subject is full: delete its messages (purge_stream with subject=), set discard_new_per_subject=False, or"
        " raise max_msgs_per_subject (update_stream)"
    ),
}
STORE_REMEDIES = {
    **STREAM_FULL,
    "message too large": "send a smaller message: a file of the store cannot hold it",
    "no space left on device": "free space on the disk of the server's store_dir",
}

_ADD = "with update_stream"
_WRONG_LAST = "another publisher stored a message first: read the last sequence again, then retry"
_PARTS = "number the messages of a batch from 1 without a gap, on one connection, then send the batch again"

MESSAGE_REMEDIES = {
    10037: "it was deleted, has expired, or does not exist yet",
    10043: "check the sequence: the message was deleted, has expired, or does not exist yet",
    10054: "send a smaller message, or raise max_msg_size of the stream with update_stream",
    10057: "check that the stream allows it (deny_delete, sealed) and that the message exists",
    10060: "the subject is stored by another stream than the expected one",
    10063: "the stream has another last sequence: read it again, then retry",
    10070: "another publisher stored a message first: read the last message's id again, then retry",
    10071: _WRONG_LAST,
    STORE_FAILED: "check space and permissions of the server's store_dir, and its log, then retry",
    10097: "send less in headers: a stream stores at most 64 KiB of them",
    10111: "set allow_rollup_hdrs=True (and deny_purge=False) of the stream, and rollup to sub or all",
    10158: "wait: another publish of this msg_id is in progress, then retry with the same msg_id",
    10163: "retry: the subject has a publish in progress",
    10164: _WRONG_LAST,
    10165: "set msg_ttl to at least 1 second, or never",
    10166: f"set allow_msg_ttl=True of the stream {_ADD}, or leave out msg_ttl",
    10167: "publish more slowly: wait for acks before the next messages, then retry",
    10168: "the stream is no counter: create one with allow_msg_counter=True, or leave out Nats-Incr",
    10169: "the stream is a counter: use js.increment",
    10170: "send an increment without a payload: use js.increment",
    10171: "send an integer as increment, with its sign: use js.increment",
    10172: "the last message of the subject is no counter value: purge the subject, then count again",
    10174: f"set allow_atomic=True of the stream {_ADD}, or use another mode of publish_batch",
    10175: _PARTS,
    10176: _PARTS,
    10177: "leave the header out of an atomic batch, or use mode window",
    10179: "use a batch id of 1 to 64 characters",
    10180: "retry, or read from the leader: this replica does not have the sequence yet",
    10188: f"set allow_msg_schedules=True of the stream {_ADD}, or leave out schedule",
    10189: 'correct schedule: a datetime, a timedelta, or "@at …", "@every 5m", "@hourly", a cron line of six fields',
    10190: "set schedule_target to another subject of the same stream, without wildcards",
    10191: "set schedule_ttl to at least 1 second, or never, in a stream with allow_msg_ttl",
    10192: "set schedule_rollup to sub",
    10193: "set expected_last_subject_seq together with expected_last_subject_seq_subject",
    10199: "send at most 1,000 messages in an atomic batch, or use mode window",
    10200: "send the commit with the last message of the batch: 1, or eob without a message",
    10201: "remove the message id that was stored before or is in the batch twice",
    10203: "set schedule_source to a subject of the same stream, without wildcards",
    10205: f"set allow_batched=True of the stream {_ADD}, or use another mode of publish_batch",
    10206: "use the reply subjects of ADR-50 for a fast batch: publish_batch with mode fast does",
    10207: "use a batch id of 1 to 64 characters",
    10208: "the batch has ended (a pause or a new leader): publish the remaining messages as a new batch",
    10210: "wait until other atomic batches are complete, then retry",
    10211: "wait until other fast batches are complete, then retry",
    10212: "leave out the scheduler's headers: only the server sets them",
    10223: "set schedule_time_zone to a zone of the server's database such as Europe/Berlin, with a cron line",
    10227: "leave out Nats-Stream-Source: only mirrors and sources set it",
}
