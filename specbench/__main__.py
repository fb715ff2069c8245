"""The command ``specbench``, which is ``python -m specbench`` too.

The command line takes a third of a second to import, so that happens in here: Ctrl-C ends it in one
line from the first moment on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def main() -> None:
    """Import the command line and run it."""
    try:
        from specbench.cli.main import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:  # while it is imported; later it answers itself
        print("interrupted", file=sys.stderr)
    except SystemExit as ending:
        if ending.code != INTERRUPTED:
            raise
    _leave_at_once()


def _leave_at_once() -> None:
    """End without Python taking torch's modules apart, which takes seconds, many on a busy machine:
    who pressed Ctrl-C waits for a prompt. What was to be done at exit is done."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # nobody reads it, or it is not there
            stream.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
