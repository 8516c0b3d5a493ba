"""One run of the command: what ends it, and what is then said on stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer
import typer.main

from jetarrow.cli import masking, output, signals, terminal
from jetarrow.cli.app import app
from jetarrow.core.errors import Error
from jetarrow.core.errors import TimeoutError as NoAnswer
from jetarrow.jetstream.errors import StreamRolledBackError

WRONG_USAGE = 2
# typer's own wrong usage; it exports no common base.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def run(arguments: Sequence[str]) -> int:
    """Runs the command and says on stderr, in one line, why it failed.

    Args:
        arguments: What stands behind `jetarrow`.

    Returns:
        The exit code.
    """
    with terminal.guarded(), signals.handled(), masking.known(arguments), _one_line_each():
        try:
            code = _call(arguments)
            sys.stdout.flush()
            return signals.exit_code() if code == signals.INTERRUPTED else code
        except (BrokenPipeError, SystemExit) as end:
            # typer makes an exit with 1 of the first.
            if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
                raise
            # Whoever read our output has had enough, as `head` does.
            return 0
        except KeyboardInterrupt:
            return signals.exit_code()
        finally:
            _flush()


def _call(arguments: Sequence[str]) -> int:
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="jetarrow", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        raise
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            return signals.INTERRUPTED
        _say("error", "not confirmed: nothing was done")
        return 1
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            where = error.ctx.command_path if getattr(error, "ctx", None) else "jetarrow"
            _say("error", f"{error.format_message()} See {where} --help")
        return WRONG_USAGE
    except NoAnswer as error:
        _say("error", f"{error} (here: --timeout)")
        return 1
    except StreamRolledBackError as error:
        _say("error", f"{error} (here: --on-rollback)")
        return 1
    except (Error, OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
        _say("error", str(error) or type(error).__name__)
        return 1
    except Exception as error:
        # What duckdb, polars and deltalake raise has no common base.
        _say("error", f"{type(error).__name__}: {error}")
        return 1


def _flush() -> None:
    """Writes what stdout holds; if nobody takes it, the interpreter does not try once more at its end and complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(kind: str, text: str) -> None:
    line = re.sub(r"\s*\n\s*", "; ", text.strip().removeprefix("nats: "))
    # A terminal that was closed takes no more lines.
    with contextlib.suppress(OSError, ValueError):
        output.remark(f"{kind}: {line}")


class _Log(logging.Handler):
    """What the library and others log as a warning or worse: lost connections, dropped messages."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.levelname.lower(), record.getMessage())


@contextlib.contextmanager
def _one_line_each() -> Iterator[None]:
    """Warnings and logs go to stderr, a line each; those of other libraries too, which Python would write raw."""
    log, handler = logging.getLogger(), _Log(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_args, **_rest: _say("warning", str(message))
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
