"""Other tools' results, read into records of our own shape; what they lack stays null.

One file per format: ``recognises`` says whether a JSON object is one of its results, ``cells``
turns a file's objects into cells. ``documents`` reads files, ``pairing`` finds the speedups of
speculative cells over the plain ones beside them, ``folder`` writes the run.

>>> names()
['llama-cpp', 'sglang', 'spec-bench', 'vllm-bench']
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from specbench.errors import SpecbenchError
from specbench.records.importing import llama_cpp, sglang, spec_bench, vllm_bench
from specbench.records.importing.cells import Given, Imported
from specbench.records.importing.documents import Source, load
from specbench.records.importing.notes import Note
from specbench.records.importing.vllm_bench import is_serving, of_sglang
from specbench.theory.closed_form import LONGEST_GAMMA

_FORMATS: dict[str, ModuleType] = {
    "llama-cpp": llama_cpp,
    "sglang": sglang,
    "spec-bench": spec_bench,
    "vllm-bench": vllm_bench,
}


def names() -> list[str]:
    """The formats that can be read."""
    return list(_FORMATS)


def read(
    paths: Sequence[Path], format: str | None, given: Given
) -> tuple[str, list[Source], list[Imported]]:
    """Read files of one format.

    Args:
        paths: at least one; plain and speculative results together.
        format: its name; None to tell it from what the files hold.
        given: what the user says in place of what files leave out.

    Returns:
        the format, the files and their cells, plain ones included.

    Raises:
        SpecbenchError: a file can't be read, is of another format or leaves out what is needed.
    """
    if format is not None and format not in _FORMATS:
        raise SpecbenchError(f"unknown format {format!r}", f"Known: {', '.join(names())}")
    sources = [load(path) for path in paths]
    found = {source.path: _format_of(source, format) for source in sources}
    if len(set(found.values())) > 1:
        kinds = "; ".join(f"{path.name} is {name}" for path, name in found.items())
        raise SpecbenchError(f"the files are of different formats: {kinds}", "Import them apart")
    (name,) = set(found.values())
    once = {source.sha256: source for source in reversed(sources)}
    kept = [source for source in sources if once[source.sha256] is source]
    cells = [cell for source in kept for cell in _cells(_FORMATS[name], source, given)]
    if not cells:
        raise SpecbenchError(f"{paths[0]} holds no result", "It may be of a benchmark that failed")
    cells[0].notes += [
        Note(source.path.name, _again(once[source.sha256].path, source.path))
        for source in sources
        if once[source.sha256] is not source
    ]
    return name, kept, cells


def _again(first: Path, path: Path) -> str:
    same = "given more than once" if first.name == path.name else f"the same as {first.name}"
    return f"{same}, taken once"


def _cells(module: ModuleType, source: Source, given: Given) -> list[Imported]:
    """A file's cells; what is wrong with it is said with its name."""
    try:
        cells: list[Imported] = module.cells(source, given)
    except SpecbenchError as error:
        if str(source.path) in error.message:
            raise
        raise SpecbenchError(f"{source.path}: {error.message}", error.hint) from error
    longest = max((cell.key["gamma"] for cell in cells), default=0)
    if longest > LONGEST_GAMMA:
        raise SpecbenchError(
            f"{source.path} has a gamma of {longest}, and no draft is longer than {LONGEST_GAMMA}",
            "The file may be damaged",
        )
    return cells


def _format_of(source: Source, wanted: str | None) -> str:
    """The one format of all objects of a file."""
    first: str | None = wanted
    for number, document in enumerate(source.documents, start=1):
        kinds = [name for name, module in _FORMATS.items() if module.recognises(document)]
        where = f"{source.path}" + (f" object {number}" if len(source.documents) > 1 else "")
        if not kinds and is_serving(document) and of_sglang(document):
            raise SpecbenchError(
                f"{where} is of SGLang's bench_serving, which is not read", _SERVED
            )
        if not kinds:
            known = ", ".join(sorted(document)[:4]) or "nothing"
            what = wanted if wanted is not None else f"known format ({', '.join(names())})"
            raise SpecbenchError(f"{where} is of no {what}: it holds {known}", _HINT)
        if first is not None and first not in kinds:
            raise SpecbenchError(f"{where} is {kinds[0]}, not {first}", _HINT)
        first = kinds[0]
    assert first is not None  # a file without objects is refused when it is read
    return first


_SERVED = (
    "Its accept_length is the server's running mean, what was asked before included: import "
    "bench_speculative's file, or measure the server with specbench run --backend openai:URL"
)
_HINT = "Give the result file that the tool itself wrote"
