"""The Spark query of CLUSTER-SOAK: appends the sequence of each message to Parquet, and starts again after an error.

`soak_query.py SERVERS STREAM FOLDER`: runs until the file `stop` is in the folder, then reads the rest.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

# Starts in a row that may fail at the end, when no server is broken any more.
TRIES = 20


def main(servers: str, stream: str, folder: Path) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    starts = last = 0
    while True:
        rest = (folder / "stop").exists()
        starts += 1
        frame = (
            spark.readStream.format("jetstream")
            .options(servers=servers, stream=stream, startingOffsets="earliest")
            .load()
            .select("seq")
        )
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        writer = writer.trigger(availableNow=True) if rest else writer.trigger(processingTime="2 seconds")
        query = writer.start(str(folder / "rows"))
        try:
            while query.isActive and (rest or not (folder / "stop").exists()):
                query.awaitTermination(1)
            query.stop()
            query.exception()
            if rest and query.exception() is None:
                print(f"{starts} starts")
                return
        except StreamingQueryException as error:
            print(error)
        last += rest
        if last > TRIES:
            sys.exit("the query does not catch up")
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
