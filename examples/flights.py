"""All flights out of New York in 2013: into a JetStream stream, out as Arrow, answered by Spark.

Run it with `make demo`, or with `python -m jetarrow.demo` where `jetarrow[demo]` is installed: what it does is in
python/jetarrow/demo/flights.py.
"""

from __future__ import annotations

import sys

from jetarrow.demo import main

if __name__ == "__main__":
    sys.exit(main())
