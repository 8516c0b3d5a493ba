"""`python -m jetarrow` runs the command `jetarrow`."""

from __future__ import annotations

import sys

from jetarrow.cli import main

if __name__ == "__main__":
    sys.exit(main())
