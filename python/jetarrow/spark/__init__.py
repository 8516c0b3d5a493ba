"""The PySpark data source: ``spark.read.format("jetstream")``.

Spark discovers it through the package ``pyspark_jetarrow``, without an import or a registration.
Driver and executors need this package and the same Python version: set ``PYSPARK_PYTHON`` if they could differ.
`progress` and `listener` report the position of a streaming query. `count_malformed` counts undecodable rows.
`count_messages` counts the messages of a batch read without their transfer.
"""

from jetarrow.spark.count import count_messages
from jetarrow.spark.progress import Progress, StreamProgress, count_malformed, listener, progress

__all__ = ["Progress", "StreamProgress", "count_malformed", "count_messages", "listener", "progress"]
