"""Every ending of the command line: exit code, and what is printed on which stream."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import typer

from specbench import __main__ as entry
from specbench.cli import main as cli
from specbench.errors import SpecbenchError

ROOT = Path(__file__).resolve().parents[2]


def ending_with(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    """Make the command ``doctor`` end with an exception."""

    def fail(_: list[str]) -> int:
        raise problem

    monkeypatch.setattr(cli, "_invoke", fail)


def test_help_names_every_command_and_fits_80_columns(specbench):
    result = specbench("--help")
    assert result.code == 0
    assert result.err == ""
    for name in cli.command_names():
        assert f"\n  {name} " in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80
    assert "..." not in result.out.partition("\n")[2], "a summary was cut"


def test_all_commands_of_the_contract_are_there():
    assert cli.command_names()[: len(cli.COMMAND_ORDER)] == list(cli.COMMAND_ORDER)


@pytest.mark.parametrize("name", cli.command_names())
def test_every_command_explains_itself_and_each_option(specbench, name: str):
    result = specbench(name, "--help")
    assert result.code == 0
    assert max(len(line) for line in result.out.splitlines()) <= 80
    command = typer.main.get_command(cli.build_app()).commands[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_no_words_print_the_help(specbench):
    assert specbench() == specbench("--help")


def test_the_version_is_printed(specbench):
    result = specbench("--version")
    assert result.code == 0
    assert result.out.startswith("specbench ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rnu"], "error: no such command 'rnu'. Did you mean 'run'? See `specbench --help`"),
        (["doctor", "--all"], "error: no such option: --all. See `specbench doctor --help`"),
        (["run", "--seed"], "error: option '--seed' requires an argument. See `specbench --help`"),
    ],
)
def test_a_usage_error_is_one_line(specbench, words: list[str], line: str):
    result = specbench(*words)
    assert result.error_line == line
    assert result.out == ""


def test_an_expected_failure_is_one_line_however_long(specbench, monkeypatch):
    ending_with(monkeypatch, SpecbenchError("x" * 300 + "\nno such\tvalue", "do\n this"))
    assert specbench("doctor").error_line == "error: " + "x" * 300 + " no such value. do this"


def test_debug_shows_the_traceback_wherever_it_stands(specbench, monkeypatch):
    ending_with(monkeypatch, SpecbenchError("wrong"))
    for words in (["--debug", "doctor"], ["doctor", "--debug"]):
        result = specbench(*words)
        assert result.code == 2
        assert result.err.startswith("Traceback")
        assert result.err.endswith("\nerror: wrong\n")


def test_a_bug_keeps_its_traceback_and_asks_for_a_report(specbench, monkeypatch):
    ending_with(monkeypatch, ZeroDivisionError("oops"))
    result = specbench("doctor")
    assert result.code == 1
    assert "ZeroDivisionError: oops" in result.err
    last = result.err.splitlines()[-1]
    assert last.startswith("error: this is a bug in specbench. Please report it")


@pytest.mark.parametrize("words", ["fit NAME", "run --dry-run --target NAME", "report NAME"])
def test_a_name_that_no_file_can_have_is_one_line(specbench, words: str):
    name = "a" * 300
    result = specbench(*words.replace("NAME", name).split())
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("error: cannot use '")
    assert name in line
    assert line.endswith("File name too long")


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), typer.Abort()])
def test_ctrl_c_says_how_to_go_on(specbench, monkeypatch, problem: BaseException):
    ending_with(monkeypatch, problem)
    result = specbench("run", "--prompts", "2")
    assert result.code == 130
    assert result.err.splitlines() == [
        "interrupted. Finished cells are kept: type the same command again to go on from there"
    ]
    assert specbench("doctor").err == "interrupted\n"


def test_ctrl_c_before_the_command_line_is_there_is_one_line(monkeypatch, capsys):
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "specbench.cli.main", Interrupted("specbench.cli.main"))
    left: list[int] = []
    monkeypatch.setattr(entry.os, "_exit", left.append)
    monkeypatch.setattr(entry.atexit, "_run_exitfuncs", lambda: None)
    entry.main()
    assert left == [130]
    assert capsys.readouterr().err == "interrupted\n"


def test_after_ctrl_c_nothing_is_taken_apart_and_what_is_due_at_exit_is_done():
    program = """
import atexit
import specbench.__main__ as entry, specbench.cli.main as cli

class Torch:
    def __del__(self):
        print("taken apart")

torch = Torch()

def interrupted():
    raise SystemExit(code)

cli.main = interrupted
atexit.register(print, "at exit")
entry.main()
"""
    told = {}
    for code in (130, 2):
        words = [sys.executable, "-c", f"code = {code}\n{program}"]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        told[ended.returncode] = ended.stdout.splitlines()
    assert told == {130: ["at exit"], 2: ["at exit", "taken apart"]}


def test_the_script_imports_nothing_before_it_can_answer_ctrl_c():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"specbench": "specbench.__main__:main"}
    program = "import sys; import specbench.__main__; print('typer' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "specbench", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
        )
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_on_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "specbench", "optimal-gamma", "--alpha", "0.8", "--cost", "0.1"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "error: cannot write the output: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="closes a file by a shell's words")
@pytest.mark.parametrize("format", ["table", "csv"])
def test_output_that_the_caller_closed_is_written_to_nobody(format: str):
    words = f"optimal-gamma --alpha 0.8 --cost 0.1 --format {format} >&-"
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m specbench {words}",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_needs_torch_says_so(specbench, monkeypatch):
    ending_with(monkeypatch, ModuleNotFoundError("No module named 'torch'", name="torch"))
    result = specbench("alpha")
    assert result.code == 2
    assert result.err.splitlines() == [
        "error: no module torch here, which this command needs. Install it: pip install torch"
    ]


def test_help_imports_nothing_heavy():
    heavy = {"torch", "transformers", "pandas", "numpy", "pydantic", "matplotlib", "pyarrow"}
    program = (
        "import sys; from specbench.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert result.stderr == "[]\n"


def test_the_module_is_the_command(specbench_process):
    result = specbench_process("--version")
    assert result.code == 0
    assert result.out.startswith("specbench ")


@pytest.mark.parametrize("name", cli.command_names())
def test_usage_names_arguments_and_formats_alike(specbench, name: str):
    told = specbench(name, "--help").out
    usage = told.partition("\n")[0]
    assert "{run" not in usage, "arguments are in capital letters"
    assert "[[" not in told
    assert "--format <" not in told
    assert "\n  [RUN]" not in told
