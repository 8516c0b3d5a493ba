"""An Avro schema, and data of fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "region", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
    ],
}


def datum(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}
