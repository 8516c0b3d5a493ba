"""One run of the command: its exit code, and its errors on stderr."""

from __future__ import annotations

import contextlib
import functools
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
from jetarrow.cli.app import application, subcommand_of
from jetarrow.core.errors import Error
from jetarrow.core.errors import TimeoutError as NoAnswer
from jetarrow.jetstream.errors import StreamRolledBackError

WRONG_USAGE = 2
# The base class of typer's usage errors, which typer does not export.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def run(arguments: Sequence[str]) -> int:
    """Run the command; write the reason of a failure to stderr as one line.

    Args:
        arguments: The arguments after `jetarrow`.

    Returns:
        The exit code.
    """
    with terminal.guarded(), masking.known(arguments), _one_line_each():
        try:
            code = _call(arguments)
            sys.stdout.flush()
            return signals.exit_code() if code == signals.INTERRUPTED else code
        except (BrokenPipeError, SystemExit) as end:
            # typer turns a BrokenPipeError into an exit with code 1.
            if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
                raise
            # The reader of a pipe has closed it, as `head` does.
            return 0
        except KeyboardInterrupt:
            return signals.exit_code()
        finally:
            _flush()


@functools.cache
def _command(subcommand: str | None) -> Any:
    return typer.main.get_command(application(subcommand))


def _call(arguments: Sequence[str]) -> int:
    try:
        code = _command(subcommand_of(arguments)).main(list(arguments), prog_name="jetarrow", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        raise
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            return signals.INTERRUPTED
        _report("error", "not confirmed: no change was made")
        return 1
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            where = error.ctx.command_path if getattr(error, "ctx", None) else "jetarrow"
            _report("error", f"{error.format_message()} See {where} --help")
        return WRONG_USAGE
    except NoAnswer as error:
        _report("error", f"{error} (option --timeout)")
        return 1
    except StreamRolledBackError as error:
        _report("error", f"{error} (option --on-rollback)")
        return 1
    except (Error, OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
        _report("error", str(error) or type(error).__name__)
        return 1
    except Exception as error:
        # Exceptions of duckdb, polars and deltalake have no common base class.
        _report("error", f"{type(error).__name__}: {error}")
        return 1


def _flush() -> None:
    """Flush stdout; on failure redirect it to /dev/null, so that the interpreter does not report it at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(kind: str, text: str) -> None:
    line = re.sub(r"\s*\n\s*", "; ", text.strip().removeprefix("nats: "))
    # Writing to a closed terminal fails.
    with contextlib.suppress(OSError, ValueError):
        output.remark(f"{kind}: {line}")


class _Log(logging.Handler):
    """Handler that writes log records of level WARNING and above to stderr, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        _report(record.levelname.lower(), record.getMessage())


@contextlib.contextmanager
def _one_line_each() -> Iterator[None]:
    """Write warnings and log records, including those of other libraries, to stderr as escaped lines."""
    log, handler = logging.getLogger(), _Log(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_args, **_rest: _report("warning", str(message))
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
