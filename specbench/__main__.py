"""The command ``specbench``, which is ``python -m specbench`` too.

The command line takes a third of a second to import, so that happens in here: Ctrl-C ends it in one
line from the first moment on.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Import the command line and run it."""
    try:
        from specbench.cli.main import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:  # while it is imported; later it answers itself
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
