"""Hooks of mkdocs: pages outside docs/ belong to the site, links between files hold, nothing comes from elsewhere."""

from __future__ import annotations

import base64
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# A file of the repository, and where it is in the site; all of docs/ is there by itself.
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
# What is looked up by name: where a guide says it too, the guide comes first.
BEHIND = ("reference/", "benches.md", "changelog.md", "develop.md")
# What the plugin `offline` loads from elsewhere, and our own in its place.
_SHIM = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')
_WORKER = f"<script>{(ROOT / '.ci' / 'worker.js').read_text('utf-8')}</script>"
# Links and pictures, but not in code.
_LINK = re.compile(r"(`[^`\n]*`)|(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from outside."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for source, target in NOTEBOOKS.items():
        page, pictures = notebook(source, target)
        files.append(File.generated(config, target, content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, name, content=content))
    return files


def notebook(source: str, target: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page: its text, its programs, what they printed; and its pictures, by their files' names."""
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
    """Links to files that are pages lead to the pages; a file that is none is named, without a link."""
    here = page.file.src_uri
    if here.startswith(BEHIND):
        page.meta["search"] = {"boost": 0.01}
    source = next((name for name, target in OUTSIDE.items() if target == here), f"docs/{here}")

    def moved(found: re.Match[str]) -> str:
        code, picture, text, link = found.groups()
        path, _, anchor = (link or "").partition("#")
        if code or not path or "://" in path or path.startswith("mailto:"):
            return found[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = OUTSIDE.get(wanted) or NOTEBOOKS.get(wanted) or ELSEWHERE.get(wanted) or wanted.removeprefix("docs/")
        if files.get_file_from_path(target) is None:
            # What is not in the repository either stays as it is, so that the strict build names it.
            return text if (ROOT / wanted).exists() else found[0]
        near = posixpath.relpath(target, posixpath.dirname(here) or ".")
        return f"{picture}[{text}]({near}{'#' + anchor if anchor else ''})"

    # Blocks of code stay as they are.
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Search in pages that are opened as files, without a script from elsewhere."""
    return _SHIM.sub(lambda _: _WORKER, output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same in pages that no file is behind: 404."""
    return _SHIM.sub(lambda _: _WORKER, output_content)
