"""Hooks of mkdocs: include pages outside docs/, resolve links between files, and replace scripts of other hosts."""

from __future__ import annotations

import base64
import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Files of the repository outside docs/, and their paths in the site. mkdocs includes docs/ itself.
OUTSIDE = {
    "MIGRATION.md": "migration.md",
    "CHANGELOG.md": "changelog.md",
    "DEVELOP.md": "develop.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benches/README.md": "benches.md",
    "benches/figures.svg": "figures.svg",
    "benches/speed.svg": "speed.svg",
}
ELSEWHERE = {"README.md": "index.md"}
NOTEBOOKS = {"examples/flights.ipynb": "flights.md"}
# Terms of the field, and the pages that answer them: the site's search ranks a page with a matching tag first.
SEARCH_TERMS = {
    "publish.md": ["backpressure", "in-flight", "idempotency"],
    "recipes/data.md": ["backpressure", "backfill", "outbox"],
    "consume.md": ["at-least-once", "in-flight"],
    "worker.md": ["at-least-once", "idempotency", "graceful shutdown", "retry"],
    "sinks.md": ["checkpoint"],
    "spark.md": ["checkpoint"],
    "concepts.md": ["offset", "consumer group"],
    "faq.md": ["metadata", "at-least-once"],
}
# Reference pages rank below guides in the search results.
BEHIND = ("reference/", "benches.md", "changelog.md", "develop.md")
# The script that the plugin `offline` loads from another host, and the local replacement.
_SHIM = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')
_WORKER = f"<script>{(ROOT / '.ci' / 'worker.js').read_text('utf-8')}</script>"
# Replaced by the help of all subcommands.
COMMAND_MARK = "<!-- command reference -->"
# Links and pictures outside of code.
_LINK = re.compile(r"(`[^`\n]*`)|(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are outside docs/."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for source, target in NOTEBOOKS.items():
        page, pictures = notebook(source, target)
        files.append(File.generated(config, target, content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, name, content=content))
    return files


def notebook(source: str, target: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page (text, programs and their output), and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads((ROOT / source).read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{target.removesuffix('.md')}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![what the program above draws]({name})")
            else:
                said = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```text\n{said}\n```")
    return "\n\n".join(parts) + f"\n\nThis page is the notebook `{source}`, with what it gave.\n", pictures


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links to files at the pages of the site; a link to a file without a page becomes its text."""
    here = page.file.src_uri
    if here.startswith(BEHIND):
        page.meta["search"] = {"boost": 0.01}
    if COMMAND_MARK in markdown:
        # Imported here: only this page needs the built module. mkdocs restores the path after it has loaded this file.
        sys.path.insert(0, str(ROOT / ".ci"))
        from command_page import command_reference

        markdown = markdown.replace(COMMAND_MARK, command_reference())
    source = next((name for name, target in OUTSIDE.items() if target == here), f"docs/{here}")

    def moved(found: re.Match[str]) -> str:
        code, picture, text, link = found.groups()
        path, _, anchor = (link or "").partition("#")
        if code or not path or "://" in path or path.startswith("mailto:"):
            return found[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = OUTSIDE.get(wanted) or NOTEBOOKS.get(wanted) or ELSEWHERE.get(wanted) or wanted.removeprefix("docs/")
        if files.get_file_from_path(target) is None:
            # A link to a file that does not exist is unchanged, so that the strict build reports it.
            return text if (ROOT / wanted).exists() else found[0]
        near = posixpath.relpath(target, posixpath.dirname(here) or ".")
        return f"{picture}[{text}]({near}{'#' + anchor if anchor else ''})"

    if here in SEARCH_TERMS:
        page.meta["tags"] = SEARCH_TERMS[here]
    # Blocks of code are not changed.
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Enable the search in pages that are opened as files, without a script from another host."""
    return _SHIM.sub(lambda _: _WORKER, output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Do the same in pages without a source file: 404."""
    return _SHIM.sub(lambda _: _WORKER, output_content)
