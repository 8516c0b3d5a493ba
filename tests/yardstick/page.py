"""The results of experiments in docs/reliability.md: a row in the table, which links to a list of figures."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

# Characters of a line, and of a table row at most: a longer one is a defect of the page.
WIDTH = 130
_FAILED = "FAILED: "


@dataclass(frozen=True)
class Result:
    """Result of one run of an experiment."""

    number: int
    name: str
    form: str
    # UTC, to the minute.
    when: str
    # Duration and load at the start.
    took: str
    # Each figure as text.
    found: tuple[str, ...]
    # The figures beyond their bounds, or the reason why there are none.
    failed: tuple[str, ...]

    @property
    def title(self) -> str:
        """Heading of the figures."""
        return self.name if self.form == "full" else f"{self.name} {self.form}"

    @property
    def row(self) -> str:
        """Row of the table."""
        anchor = self.title.lower().replace(" ", "-")
        verdict = "**failed**" if self.failed else "passed"
        cells = (f"[{self.number} {self.name}](#{anchor})", self.form, self.when, self.took, verdict)
        return f"| {' | '.join(cells)} |"

    @property
    def section(self) -> str:
        """List of the figures: one item per part of the experiment, the failed figures in front."""
        items = [f"{_FAILED}{'; '.join(self.failed)}"] if self.failed else []
        part: list[str] = []
        for figure in self.found:
            # A name with a colon opens a part: "publish_batch: rows 1,000,000".
            if part and re.match(r"[^(]+?: ", figure):
                items.append("; ".join(part))
                part = []
            part.append(figure)
        items += ["; ".join(part)] if part else []
        lines = [textwrap.fill(item, WIDTH, initial_indent="- ", subsequent_indent="  ") for item in items]
        return f"#### {self.title}\n\n" + "\n".join(lines) + "\n"


def with_result(page: str, result: Result) -> str:
    """Returns the page with the result in place of the last one of the same experiment and form."""
    head, table, middle, sections, tail = _parts(page)
    title, rows = table[:2], [row for row in table[2:] if row.split(" | ")[:2] != result.row.split(" | ")[:2]]
    rows = sorted([*rows, result.row], key=_order)
    kept = [section for section in sections if not section.startswith(f"#### {result.title}\n")]
    order = {anchor: place for place, anchor in enumerate(re.findall(r"\]\(#([\w-]+)\)", "\n".join(rows)))}
    kept = sorted([*kept, result.section], key=lambda section: order[_anchor(section)])
    lines = "\n".join([*title, *rows])
    body = "\n".join(kept)
    return f"{head}<!-- yardstick -->\n{lines}\n<!-- /yardstick -->{middle}<!-- found -->\n{body}<!-- /found -->{tail}"


def _parts(page: str) -> tuple[str, list[str], str, list[str], str]:
    head, _, rest = page.partition("<!-- yardstick -->\n")
    table, _, rest = rest.partition("<!-- /yardstick -->")
    middle, _, rest = rest.partition("<!-- found -->\n")
    sections, _, tail = rest.partition("<!-- /found -->")
    found = [f"#### {section.strip()}\n" for section in sections.split("#### ") if section.strip()]
    return head, table.strip().splitlines(), middle, found, tail


def _order(row: str) -> tuple[int, str]:
    """By number; the full form before the short one."""
    number = re.match(r"\| \[(\d+) ", row)
    assert number, row
    return int(number[1]), row.split(" | ")[1]


def _anchor(section: str) -> str:
    return section.splitlines()[0].removeprefix("#### ").lower().replace(" ", "-")
