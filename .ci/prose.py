"""Prose linter: reports wording that the style guide excludes, in Markdown, docstrings and comments.

python .ci/prose.py [FILE ...]   prints the findings in these files, by default in all, and fails if there are any
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("python", "rust", "fuzz", "docs", "tests", "benches", "examples", ".ci")
# Capitalised: at the beginning of a sentence, a heading or a table cell.
OPENINGS = r"What|Who|Whoever|Whatever|Whose|Where|Nobody|None of|So (?:many|much)|How (?:many|much|long|often|far)|Of"
# Verbs that programs do not have, and private words for things that have names in the field.
WORDS = (
    r"[Tt]ells?|[Tt]old|[Ss]ays?|[Ss]aid|[Nn]obody|[Ww]hoever|[Ll]ies|[Ss]tands|so many|never was|(?:also|only) where"
    r"|(?:gives?|gave|given|comes?|came|goes|went) back|[Rr]iddles?|[Dd]oubt|[Pp]atience|[Hh]opeless|[Dd]eaf|[Bb]readth"
)
FINDING = re.compile(rf"(?<![\w-])(?:{OPENINGS}|{WORDS})(?![\w-])".replace(" ", r"\s+"))
# Not prose: fenced and inline code, targets of links, and in Markdown indented blocks.
CODE = re.compile(r"^[ \t]*```.*?^[ \t]*```|`[^`\n]*`|(?<=\])\([^)\s]*\)", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n|\n(?= {4}))+")
# Strings match before comments, because a string may contain the sign of a comment. The last group is prose.
PYTHON = re.compile(
    r'^[ \t]*[rR]?"""((?:\\.|[^\\])*?)"""|"""(?:\\.|[^\\])*?"""' + r"|'''(?:\\.|[^\\])*?'''|'(?:\\.|[^'\\\n])*'"
    r'|"(?:\\.|[^"\\\n])*"|#([^\n]*)',
    re.MULTILINE | re.DOTALL,
)
RUST = re.compile(r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"|' r"'(?:\\.|[^'\\\n])'|//([^\n]*(?:\n[ \t]*//[^\n]*)*)", re.DOTALL)
LANGUAGES = {".md": None, ".py": PYTHON, ".pyi": PYTHON, ".rs": RUST}


def findings(text: str, suffix: str) -> list[str]:
    """Returns the findings in a file's text, each as `line: words`."""
    pieces = [(0, INDENTED.sub(lambda code: "\n" * code[0].count("\n"), text))]
    if language := LANGUAGES[suffix]:
        matches = [(found, found.lastindex) for found in language.finditer(text) if found.lastindex]
        pieces = [(found.start(group), found[group]) for found, group in matches if found[group].strip("#")]
    result = []
    for start, piece in pieces:
        # Code leaves its line breaks, so that line numbers stay the same.
        plain = CODE.sub(lambda code: "\n" * code[0].count("\n"), re.sub(r"(?m)^[ \t]*//[/!]?", "", piece))
        for hit in FINDING.finditer(plain):
            line = 1 + text.count("\n", 0, start) + plain.count("\n", 0, hit.start())
            result.append(f"{line}: {' '.join(hit[0].split())}")
    return result


def scan(root: Path) -> dict[str, list[str]]:
    """Returns the findings of each file with prose in a checkout, by its path."""
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in LANGUAGES]
    paths = sorted(path for path in [*root.glob("*.md"), *below] if "target" not in path.parts)
    return {path.relative_to(root).as_posix(): findings(path.read_text("utf-8"), path.suffix) for path in paths}


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Runs the command and returns its exit code."""
    found = scan(root)
    hits = [f"{name}:{hit}" for name in arguments or found for hit in found[name]]
    print(*hits, sep="\n", end="\n" if hits else "")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
