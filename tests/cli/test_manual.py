"""Help, manual page, reference page and completion: all of them name every subcommand and option."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from jetarrow.cli.exit_codes import EXIT_CODES

from tests.cli.test_run import ALL
from tests.cli.tools import Command, command

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "command.md").read_text("utf-8")


def command_reference() -> str:
    """Returns the page as `make docs` makes it."""
    spec = importlib.util.spec_from_file_location("command_page", ROOT / ".ci" / "command_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.command_reference())


def options_of(path: tuple[str, ...]) -> set[str]:
    return {name for param in ALL[path].params for name in param.opts if name.startswith("--")} - {"--help"}


def test_usage_names_the_arguments(cli: Command) -> None:
    assert "Usage: jetarrow publish [OPTIONS] SUBJECT [PAYLOAD]" in cli("publish", "--help").out
    assert "Usage: jetarrow kv ls [OPTIONS] [BUCKET] [FILTER]" in cli("kv", "ls", "--help").out
    assert "Usage: jetarrow load [OPTIONS] FILE..." in cli("load", "--help").out
    for path in ALL:
        (usage,) = re.findall(r"Usage: (.*?)\n\s*\n", cli(*path, "--help").out, re.DOTALL)
        assert not re.search(r"[{}]|\[\[", usage), usage


def test_help_documents_the_keys(cli: Command) -> None:
    shown = " ".join(cli("object", "ls", "--help").out.split())
    assert "--json: with BUCKET: an array of objects with name, size, chunks" in shown


def test_reference_page_has_every_subcommand_option_and_key() -> None:
    page = command_reference()
    sections = re.split(r"(?m)^##+ ", page)
    for path, found in ALL.items():
        (text,) = (one for one in sections if one.startswith(f"{' '.join(path)}\n"))
        own = {name for name in options_of(path) if name in text}
        assert own >= {"--json"}
        assert options_of(path) <= own | set(re.findall(r"--[\w-]+", sections[-2]))
        for shape in found.shapes:
            assert all(f"`{key}`" in text or key in text for key in shape.keys)
    assert len(sections) > len(ALL)


def test_exit_codes_are_those_of_the_guide() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", GUIDE, re.MULTILINE)
    assert [(int(code), text) for code, text in rows] == [(code, text) for code, text in EXIT_CODES]
    assert f"| {EXIT_CODES[0][0]} | {EXIT_CODES[0][1]} |" in command_reference()


def test_the_manual_page_has_every_subcommand_and_option(cli: Command) -> None:
    page = cli("man").out
    assert cli("man", "--json").json == {"page": page}
    text = page.replace("\\-", "-")
    for path in ALL:
        assert f".SS jetarrow {' '.join(path)}" in text
        assert all(name in text for name in options_of(path))


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_valid(cli: Command) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=cli("man").out, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert "jetarrow publish orders.eu.1 '{\"amount\": 3}'" in re.sub(r"\x1b\[[\d;]*m", "", done.stdout)


# Words of a shell, and the program that asks it for the completions of `jetarrow stream pu`.
_SHELLS = {
    "bash": (
        "bash",
        "-c",
        "source <(jetarrow completion bash); COMP_WORDS=(jetarrow stream pu) COMP_CWORD=2;"
        ' _jetarrow_completion jetarrow; echo "${COMPREPLY[@]}"',
    ),
    "fish": ("fish", "-c", 'jetarrow completion fish | source; complete -C "jetarrow stream pu"'),
    # Without a line editor: the function that completion calls writes its call of _arguments.
    "zsh": (
        "zsh",
        "-fc",
        "compdef() { :; }; _arguments() { print -r -- $@; }; source <(jetarrow completion zsh);"
        " words=(jetarrow stream pu); CURRENT=3; _jetarrow",
    ),
}


@pytest.mark.parametrize("shell", _SHELLS)
def test_completion_in_the_shell(shell: str, away: Path, tmp_path: Path, cli: Command) -> None:
    assert cli("completion", shell, "--json").json["shell"] == shell
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "bin" / "jetarrow"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(command())} "$@"\n', "utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(_SHELLS[shell], capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert "purge" in done.stdout, done.stderr
    assert "report" not in done.stdout


def test_completion_of_an_unknown_shell_is_wrong_usage(cli: Command) -> None:
    assert cli("completion", "tcsh").code == 2
    assert json.loads(cli("completion", "zsh", "--json").out)["script"].startswith("#compdef jetarrow\n")
