"""Exit codes of the command, for the manual, the reference page and their tests."""

from __future__ import annotations

EXIT_CODES = (
    (
        0,
        "success; `doctor` without warnings; `migrate` without findings; `serve`, `lag --serve` after SIGTERM; a pipe"
        " that its reader closed",
    ),
    (1, "failure: one line on stderr with the reason and the next step; a warning of `doctor`; findings of `migrate`"),
    (2, "wrong usage: an unknown option, an invalid value, options that exclude each other; an error of `doctor`"),
    (130, "Ctrl-C (SIGINT)"),
    (143, "SIGTERM"),
    (129, "SIGHUP: the terminal was closed"),
)
