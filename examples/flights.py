"""Load all flights from New York in 2013 into a JetStream stream, read them as Arrow, and query them with Spark.

Run it with `make demo`, or with `python -m jetarrow.demo` if `jetarrow[demo]` is installed. The code is in
python/jetarrow/demo/flights.py.
"""

from __future__ import annotations

import sys

from jetarrow.demo import main

if __name__ == "__main__":
    sys.exit(main())
