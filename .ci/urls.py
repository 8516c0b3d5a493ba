"""Writes the addresses of the releasing repository into [project.urls] of pyproject.toml, for the release workflow.

python .ci/urls.py "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"

The sources contain no address: the releasing repository is the one whose workflow runs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
PAGES = {
    "Source": "",
    "Documentation": "/tree/main/docs",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/security/policy",
}


def with_urls(project: str, repository: str) -> str:
    """Return the text of pyproject.toml with the addresses, which replace existing ones.

    Raises:
        ValueError: `repository` is not the address of a repository.
    """
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", repository):
        raise ValueError(f"{repository!r} is no https://host/owner/name")
    rest = re.sub(r'\[project\.urls\]\n(?:\w+ = "[^"\n]*"\n)*\n?', "", project)
    urls = "".join(f'{name} = "{repository}{path}"\n' for name, path in PAGES.items())
    return rest.replace("[project.scripts]\n", f"[project.urls]\n{urls}\n[project.scripts]\n", 1)


if __name__ == "__main__":
    PROJECT.write_text(with_urls(PROJECT.read_text("utf-8"), sys.argv[1]), "utf-8")
