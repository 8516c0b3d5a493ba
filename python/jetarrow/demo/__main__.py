"""Runs `python -m jetarrow.demo`."""

from __future__ import annotations

import sys

from jetarrow.demo import main

sys.exit(main())
