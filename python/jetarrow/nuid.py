"""Short unique names, under nats-py's module path."""

from __future__ import annotations

from jetarrow.core.nuid import BASE as BASE
from jetarrow.core.nuid import DIGITS as DIGITS
from jetarrow.core.nuid import INC as INC
from jetarrow.core.nuid import MAX_INC as MAX_INC
from jetarrow.core.nuid import MAX_SEQ as MAX_SEQ
from jetarrow.core.nuid import MIN_INC as MIN_INC
from jetarrow.core.nuid import NUID as NUID
from jetarrow.core.nuid import PREFIX_LENGTH as PREFIX_LENGTH
from jetarrow.core.nuid import SEQ_LENGTH as SEQ_LENGTH
from jetarrow.core.nuid import TOTAL_LENGTH as TOTAL_LENGTH

__all__ = ["NUID"]
