"""Lines of a program on nats-py that need attention when it moves to jetarrow, found in its source.

A finding is certain: names are resolved by the imports of their file, and objects by the calls that created them. A
difference that the source does not show is not reported. The program is not imported.
"""

from jetarrow.migrate.check import check, check_source
from jetarrow.migrate.finding import Finding, Kind, Report

__all__ = ["Finding", "Kind", "Report", "check", "check_source"]
