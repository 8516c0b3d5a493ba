"""`jetarrow completion` and `jetarrow man`: completion of shells, and the manual page."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb

# Each script runs the command with `_JETARROW_COMPLETE`, and typer then writes the completions.
_SCRIPTS = {
    "bash": """\
_jetarrow_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" _JETARROW_COMPLETE=complete_bash "$1"))
}
complete -o default -F _jetarrow_completion jetarrow
""",
    "zsh": """\
#compdef jetarrow
_jetarrow() {
    eval "$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _JETARROW_COMPLETE=complete_zsh jetarrow)"
}
if [[ "${funcstack[1]}" = _jetarrow ]]; then _jetarrow "$@"; else compdef _jetarrow jetarrow; fi
""",
    "fish": """\
function _jetarrow
    set --local --export _JETARROW_COMPLETE complete_fish
    set --local --export _TYPER_COMPLETE_FISH_ACTION $argv[1]
    set --local --export _TYPER_COMPLETE_ARGS (commandline -cp)
    jetarrow
end
complete --command jetarrow --no-files --arguments "(_jetarrow get-args)" --condition "_jetarrow is-args"
""",
}


def add_to(app: typer.Typer) -> None:
    """Adds the subcommands."""

    def man(session: Session) -> None:
        """Writes the manual page, made from the help of the subcommands, in the format of man."""
        _write_man(session, app)

    shape = an_object("shell script")
    verb(app, "completion", example="jetarrow completion bash > ~/.jetarrow-completion", json=shape, server=False)(
        completion
    )
    verb(app, "man", example="jetarrow man > jetarrow.1", json=an_object("page"), server=False)(man)


def completion(
    session: Session,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Writes the completion script of a shell, to be read by its startup file; --install-completion does both."""
    script = _SCRIPTS[shell]
    if session.as_json:
        session.done("", shell=shell, script=script)
    else:
        typer.echo(script, nl=False)


def _write_man(session: Session, app: typer.Typer) -> None:
    from jetarrow import __version__
    from jetarrow.cli.help_pages import read_help
    from jetarrow.cli.man_page import man_page

    page = man_page(*read_help(app), __version__)
    if session.as_json:
        session.done("", page=page)
    else:
        typer.echo(page, nl=False)
