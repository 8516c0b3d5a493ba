"""Rules of documented differences."""

from jetarrow.migrate.rules import connecting, messages, stores, streams
from jetarrow.migrate.rules.rule import RULES, Module, Rule

__all__ = ["RULES", "Module", "Rule", "connecting", "messages", "stores", "streams"]
