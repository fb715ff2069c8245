"""The task file, ``tasks/NAME.toml``: its schema, and how a row becomes a prompt.

The format is described in ``tasks/README.md``. Unknown keys are refused, so that a typing error
does not silently drop a source.
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from specbench.errors import SpecbenchError
from specbench.workloads.jsonl import parse_rows, read_bytes
from specbench.workloads.prompt import Prompt

#: Keys of a row that are understood without standing in the template.
ROW_KEYS = frozenset({"id", "category"})

Text = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Turns = Annotated[
    tuple[Text, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(min_length=1),
]


class TextForm(_Table):
    """The prompt for models with an encoder, which are told no task in words of instruction."""

    template: Turns
    prefix: str = ""


class OfflineSource(_Table):
    """The prompts that ship with the task, beside its TOML."""

    file: Text


class HubSource(_Table):
    """A published data set at one commit, or a local folder in the same layout."""

    dataset: Text
    config: Text | None = None
    split: Text
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    licence: Text
    columns: dict[str, Text]


class PackageSource(_Table):
    """An installed Python package whose function returns the rows."""

    name: Text
    module: Text
    function: Text
    licence: Text
    columns: dict[str, Text]


class TaskFile(_Table):
    """A parsed task file; ``name`` and ``folder`` come from where it lies."""

    name: str
    folder: Path
    description: Text
    version: Annotated[int, Field(ge=1, strict=True)]
    licence: Text
    template: Turns
    seq2seq: TextForm | None = None
    offline: OfflineSource
    hub: HubSource | None = None
    package: PackageSource | None = None

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the templates need, e.g. ``turns`` for ``{turns[0]}``."""
        turns = self.template + (self.seq2seq.template if self.seq2seq else ())
        names = (name for turn in turns for _, name, _, _ in string.Formatter().parse(turn))
        return frozenset(name.partition("[")[0].partition(".")[0] for name in names if name)

    @property
    def offline_path(self) -> Path:
        """The JSONL file of the offline prompts."""
        return self.folder / self.offline.file

    def prompt(self, fields: Mapping[str, Any], number: int, source: str, where: str) -> Prompt:
        """Fill the template from one row; ``number`` names a row that has no id of its own.

        Raises:
            SpecbenchError: a field is missing or a turn would be empty; ``where`` says which row.
        """
        try:
            turns = _filled(self.template, fields)
            texts = _filled(self.seq2seq.template, fields) if self.seq2seq else None
        except (KeyError, IndexError, AttributeError, ValueError) as error:
            raise SpecbenchError(
                f"{where} does not fill the template of task {self.name!r}: no {error}",
                f"The template needs: {', '.join(sorted(self.fields))}",
            ) from None
        blank = [name for name in sorted(self.fields) if not str(fields.get(name, "")).strip()]
        if blank:
            raise SpecbenchError(f"{where} has an empty {blank[0]}", "Fill it or remove the row")
        identifier = fields.get("id", f"{self.name}-{number}")
        category = fields.get("category") or self.name
        return Prompt(
            str(identifier),
            self.name,
            str(category),
            turns,
            source,
            texts=texts,
            prefix=self.seq2seq.prefix if self.seq2seq else "",
        )

    def offline_prompts(self) -> list[Prompt]:
        """The prompts that ship with the task, in file order.

        Raises:
            SpecbenchError: the file is missing or malformed.
        """
        path = self.offline_path
        return [
            self.prompt(row.fields, row.line, "offline", row.where)
            for row in parse_rows(read_bytes(path), path)
        ]


def read_task_file(path: Path) -> TaskFile:
    """Read and check a task file.

    Raises:
        SpecbenchError: not TOML, or a key is missing, unknown or of the wrong kind.
    """
    try:
        table = tomllib.loads(read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise SpecbenchError(f"{path} is not UTF-8", "Save the task file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecbenchError(f"{path} is malformed TOML: {error}", "See tasks/README.md") from None
    try:
        task = TaskFile.model_validate({**table, "name": path.stem, "folder": path.parent})
        needed = task.fields
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SpecbenchError(
            f"{path}: {key or 'task file'}: {first['msg']}", "See tasks/README.md"
        ) from None
    except ValueError as error:
        raise SpecbenchError(
            f"{path}: template: {error}", "Write {{ and }} for literal braces"
        ) from None
    for table_name, columns in _column_tables(task):
        lacking = sorted(needed - columns.keys())
        if lacking:
            raise SpecbenchError(
                f"{path}: {table_name}.columns has no {lacking[0]!r}, which the template needs",
                "Map every field of the template to a column",
            )
    return task


def pick(row: Mapping[str, Any], columns: Mapping[str, str], where: str) -> dict[str, Any]:
    """The template's fields of a foreign row; a dot in a column name goes into a record.

    Raises:
        SpecbenchError: the row has no such column.
    """
    picked: dict[str, Any] = {}
    for field, column in columns.items():
        value: Any = row
        for part in column.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise SpecbenchError(
                    f"{where} has no column {column!r}", f"Its columns: {', '.join(map(str, row))}"
                )
            value = value[part]
        picked[field] = value
    return picked


def _filled(template: Sequence[str], fields: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(turn.format_map(fields) for turn in template)


def _column_tables(task: TaskFile) -> Sequence[tuple[str, Mapping[str, str]]]:
    sources = (("hub", task.hub), ("package", task.package))
    return [(name, source.columns) for name, source in sources if source is not None]
