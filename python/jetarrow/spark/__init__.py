"""The PySpark data source: ``spark.read.format("jetstream")``.

Spark finds it by itself through the package ``pyspark_jetarrow``; nothing has to be imported or registered.
Driver and executors need this package, and the same Python: set ``PYSPARK_PYTHON`` where they could differ.
`progress` and `listener` tell how far a streaming query is, `count_malformed` has it count what could not be decoded.
"""

from jetarrow.spark.progress import Progress, StreamProgress, count_malformed, listener, progress

__all__ = ["Progress", "StreamProgress", "count_malformed", "listener", "progress"]
