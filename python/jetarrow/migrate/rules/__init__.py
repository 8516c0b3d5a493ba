"""Rules of documented differences."""

from jetarrow.migrate.rules import connecting, messages, names, pulls, stores, streams
from jetarrow.migrate.rules.rule import RULES, Module, Rule

__all__ = ["RULES", "Module", "Rule", "connecting", "messages", "names", "pulls", "stores", "streams"]
