"""docs/spark.md: its Python blocks run in their order, and it names every option."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.server import NatsServer
from jetarrow.spark.options.read import READ_OPTIONS
from jetarrow.spark.options.write import WRITE_OPTIONS
from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
ADDRESS = "nats://localhost:4222"


def test_every_option_is_there() -> None:
    named = set(re.findall(r"`(\w+)[=`]", PAGE)) | set(re.findall(r'option\("(\w+)"', PAGE))
    options = {*READ_OPTIONS, *WRITE_OPTIONS}
    assert len(options) > 40
    assert options - named == set()


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_blocks_run(spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 5
    orders = [{"id": i, "country": ("de", "fr")[i % 2], "euros": i / 2} for i in range(100)]
    namespace = {"spark": spark, "folder": str(tmp_path)}
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        for name in ("ORDERS", "TOTALS", "ARCHIVE", "COPIES"):
            js.add_stream(name=name, subjects=[f"{name.lower()}.>"])
        subjects = [f"orders.{order['country']}" for order in orders]
        js.publish_batch(subjects, [json.dumps(order) for order in orders]).raise_for_errors()
        js.add_stream(name="PRICES", subjects=["prices.>"])
        table = pa.table({"region": ["eu", "us", "eu"], "price": [12.5, 5.0, 7.5]})
        js.publish_table(table, "prices.{region}", format="arrow").raise_for_errors()
        js.add_stream(name="RECORDS", subjects=["records.>"])
        order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
        js.publish_table(pa.table({"id": [1, 2]}), "records.a", format="avro", schema=order).raise_for_errors()
        bucket = js.create_key_value(bucket="CUSTOMERS")
        for key, city in (("ann", "Bonn"), ("bob", "Rome"), ("bob", "Oslo"), ("cid", "Bern"), ("ann", "Kiel")):
            bucket.put(key, json.dumps({"name": key.title(), "city": city}))
        bucket.delete("cid")
        for block in blocks:
            assert ADDRESS in block
            exec(compile(block.replace(ADDRESS, server.url), "docs/spark.md", "exec"), namespace)
        customers = namespace["customers"].collect()  # type: ignore[attr-defined]
        both = namespace["both"].collect()  # type: ignore[attr-defined]
        prices = namespace["prices"].collect()  # type: ignore[attr-defined]
        assert [row.id for row in namespace["records"].collect()] == [1, 2]  # type: ignore[attr-defined]
        assert js.stream_info("TOTALS").state.messages == 200
        archived = js.read("ARCHIVE").read_all().to_pylist()
        assert len(archived) == 100
        assert all(("Content-Type", ["application/json"]) in row["headers"] for row in archived)
        assert js.stream_info("COPIES").state.messages == 100
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 100
    assert sorted(row.seq for row in both) == list(range(1, 101))
    assert sorted((row.id, row.euros) for row in both) == [(i, i / 2) for i in range(100)]
    assert {(row.region, row.price) for row in prices} == {("eu", 12.5), ("us", 5.0), ("eu", 7.5)}
    found = {row.key: row.city for row in customers}
    assert found == {"ann": "Kiel", "bob": "Oslo"}
    merged = namespace["table"].to_pyarrow_table().to_pylist()  # type: ignore[attr-defined]
    assert {row["key"]: json.loads(row["customer"])["city"] for row in merged} == found
