"""Starts the command line and turns every ending into an exit code and one line.

========================  ====  =================================================================
ending                    code  what is printed on stderr
========================  ====  =================================================================
done                      0     nothing
the user's mistake        2     ``error: what was wrong, the value. The way out`` (one line)
output can't be written   2     ``error: cannot write the output: why`` (a full disk behind it)
no torch where needed     2     ``error: no module torch here``, and what to install
Ctrl-C                    130   ``interrupted``, and how to go on
the reader closed a pipe  1     nothing
a bug                     1     the traceback, then one line that asks for a report
========================  ====  =================================================================

``--debug``, anywhere on the line, shows the traceback behind a one-line error too.

>>> # specbench --version
"""

from __future__ import annotations

import errno
import importlib
import io
import keyword
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from specbench.analysis.shown.names import printable
from specbench.errors import SpecbenchError

COMMAND_ORDER = (
    "run", "alpha", "plot", "optimal-gamma", "fit", "report", "compare", "reference", "import",
    "train-drafter", "tasks", "drafters", "models", "doctor",
)  # fmt: skip
"""The order in the help text; a command that is not listed here follows in alphabetical order."""

_NOT_COMMANDS = {"main", "console"}

_BUG = (
    "this is a bug in specbench. Please report it with the traceback above and the output of "
    "`specbench doctor`"
)

_DENIED = {
    errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC,
    errno.EDQUOT, errno.EIO, errno.ESTALE,
}  # fmt: skip
"""What a file system answers that has nothing to do with the program."""

# The base class of typer's usage errors; typer itself moved it from the package click to its own
# copy, so it is taken from the one subclass that every version exports.
_UsageProblem: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``specbench`` script: runs one command line and exits.

    Args:
        arguments: the words after ``specbench``; ``sys.argv`` when not given.

    Raises:
        SystemExit: always, with the exit code of the table above.
    """
    sys.stdout = sys.stdout or io.StringIO()  # closed by the caller: nobody reads
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = _invoke(words)
        sys.stdout.flush()
    except SpecbenchError as problem:
        if debug:
            traceback.print_exc()
        code = _fail(str(problem))
    except _UsageProblem as problem:
        if debug:
            traceback.print_exc()
        code = _fail(_usage_text(problem))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        _leave_stdout()
        code = 1
    except Exception as problem:
        sentence = _surroundings(problem)
        if debug or sentence is None:
            traceback.print_exc()
        code = 1 if sentence is None else 2
        print(f"error: {sentence or _BUG}", file=sys.stderr)
    if code == 130:
        print(_interrupted_text(words), file=sys.stderr)
    sys.exit(code)


def command_names() -> list[str]:
    """All commands, found by listing this folder, in the order of the help text."""
    stems = {file.stem for file in Path(__file__).parent.glob("*.py")} - _NOT_COMMANDS
    found = sorted(stem.rstrip("_").replace("_", "-") for stem in stems if not stem.startswith("_"))
    ordered = [name for name in COMMAND_ORDER if name in found]
    return ordered + [name for name in found if name not in COMMAND_ORDER]


def build_app() -> typer.Typer:
    """The typer application with every command of this folder."""
    app = typer.Typer(
        name="specbench",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_global_options)
    for name in command_names():
        stem = name.replace("-", "_")
        stem += "_" if keyword.iskeyword(stem) else ""
        function: Callable[..., Any] = getattr(
            importlib.import_module(f"specbench.cli.{stem}"), stem
        )
        summary = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
        app.command(name, short_help=summary.rstrip("."))(function)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from specbench.records.provenance import specbench_version

        print(f"specbench {specbench_version()}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback behind a one-line error.")
    ] = False,
) -> None:
    """Measure speculative decoding on this machine, explain it with theory, and say what to do.

    \b
    specbench run                  measure a small built-in model
    specbench plot RUN             draw the measured points on the theory's curves
    specbench optimal-gamma RUN    the draft length to use; 0 means "don't"
    """


def _invoke(words: list[str]) -> int:
    command = typer.main.get_command(build_app())
    result = command.main(args=words or ["--help"], prog_name="specbench", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _fail(text: str) -> int:
    print(printable(f"error: {text}"), file=sys.stderr)
    return 2


def _usage_text(problem: Exception) -> str:
    """A usage error in one line, with the command whose ``--help`` lists the options."""
    text = " ".join(str(problem.format_message()).split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(problem, "ctx", None)
    where = context.command_path if context is not None else "specbench"
    stop = "" if text.endswith("?") else "."
    return f"{text[:1].lower()}{text[1:]}{stop} See `{where} --help`"


def _interrupted_text(words: Sequence[str]) -> str:
    if "run" in words[:1]:
        return (
            "interrupted. Finished cells are kept: type the same command again to go on from there"
        )
    if "alpha" in words[:1]:
        return "interrupted. Text and traces are kept: type the same command again to go on"
    if "train-drafter" in words[:1]:
        return (
            "interrupted. Finished shards of answers and steps of training are kept: type the same"
            " command again to go on"
        )
    return "interrupted"


def _surroundings(problem: Exception) -> str | None:
    """What is wrong around the program, in a line; None if the program itself is."""
    if isinstance(problem, ModuleNotFoundError) and problem.name == "torch":
        return "no module torch here, which this command needs. Install it: pip install torch"
    if not isinstance(problem, OSError):
        return None
    if problem.errno == errno.ENOSPC and not problem.filename:
        _leave_stdout()
        return f"cannot write the output: {problem.strerror}"
    if problem.errno in _DENIED and problem.filename:
        return printable(f"cannot use {str(problem.filename)!r}: {problem.strerror}")
    return None


def _leave_stdout() -> None:
    """The reader went away (``specbench … | head``) or its disk is full: write no more to it, at
    interpreter exit neither."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
