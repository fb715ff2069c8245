"""A run as the sections read it: its fit, and what follows from that, each made when first asked.

A run without anything to fit still has a report: its groups are empty, and ``problem`` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from specbench.analysis.checking.violations import Violations, violations
from specbench.analysis.claims import Checked, check_claims
from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import GroupFit, RunFit
from specbench.analysis.machine.limits import Limits, limits_of
from specbench.analysis.pooling import RawTables, Setting
from specbench.analysis.recommending import Answer, recommend
from specbench.analysis.shown.folding import Folded
from specbench.analysis.shown.frame import points_frame
from specbench.analysis.shown.more_frames import forwards_frame, positions_frame
from specbench.analysis.shown.names import short_names
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import CellRecord
from specbench.records.spec_text import quantised_name
from specbench.report.fields import places
from specbench.report.parts import Field, Part, Rows
from specbench.report.pictures import pictures


@dataclass(frozen=True)
class Material:
    """What the sections are made from.

    Attributes:
        run: where the cells and tables are.
        fitted: the same run, fitted; None where there is nothing to fit.
        problem: why there is no fit.
    """

    run: Run
    fitted: RunFit | None
    problem: SpecbenchError | None = None

    @classmethod
    def of(cls, run: Run) -> Material:
        """Fit a run, as far as it can be."""
        try:
            return cls(run, fit_run(run))
        except SpecbenchError as problem:
            return cls(run, None, problem)

    @property
    def groups(self) -> Sequence[GroupFit]:
        """Every fitted group; none without a fit."""
        return self.fitted.groups if self.fitted else ()

    @property
    def settings(self) -> Mapping[Setting, Sequence[GroupFit]]:
        """The groups of each setting, in the order in which they were measured."""
        found: dict[Setting, list[GroupFit]] = {}
        for group in self.groups:
            found.setdefault(group.key.setting, []).append(group)
        return found

    def by_setting(self, rows_of: Callable[[GroupFit], Iterable[Sequence[Field]]]) -> list[Rows]:
        """The rows of every group under the name of its setting; settings without any left out."""
        found = [
            Rows([row for group in groups for row in rows_of(group)], str(setting))
            for setting, groups in self.settings.items()
        ]
        return [group for group in found if group.rows]

    def folded(
        self, groups: Sequence[GroupFit], fold: Callable[[Sequence[GroupFit]], Sequence[Folded]]
    ) -> list[list[Field]]:
        """A row for every verdict on one drafter: its name, the settings, and what is said."""
        rows: list[list[Field]] = []
        for drafter in dict.fromkeys(group.key.drafter for group in groups):
            for verdict in fold([group for group in groups if group.key.drafter == drafter]):
                where = places([group.key.setting for group in verdict.groups], self.settings)
                rows.append([self.names[drafter], "; ".join(where), verdict.text])
        return rows

    @property
    def failed(self) -> Sequence[CellRecord]:
        """Cells that failed or ran out of memory."""
        return [cell for cell in self.run.cells if cell.status != "ok"]

    @property
    def target(self) -> str:
        """The target's name, as far as the run has one."""
        named = self.run.manifest.target.get("name") or (self.fitted and self.fitted.target)
        cells = self.run.cells
        if not named:
            return cells[0].target if cells else "an unknown target"
        return quantised_name(str(named), self.run.manifest.target_quantization)

    @property
    def machine(self) -> str | None:
        """The GPU, else the processor, that the run was measured on; None where it doesn't say."""
        device = self.run.manifest.device
        gpu = device.get("gpu") or {}
        name = gpu.get("name") or device.get("cpu")
        return str(name) if name else None

    @property
    def suspect(self) -> frozenset[str]:
        """Ids of cells whose numbers can't be, or are not those of their rounds."""
        return self.fitted.suspect if self.fitted else self.impossible.suspect

    @cached_property
    def impossible(self) -> Violations:
        """What in the run can't be; with a fit its warnings tell."""
        return violations(self.run, RawTables(self.run))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Each drafter as tables show it."""
        return short_names(cell.drafter for cell in self.run.cells)

    @cached_property
    def answer(self) -> Answer:
        """What to do in each setting.

        Raises:
            SpecbenchError: the run can't tell, and why.
        """
        if self.fitted is None:
            raise self.problem or SpecbenchError("nothing was fitted")
        return recommend(self.fitted)

    @cached_property
    def limits(self) -> Limits | None:
        """How far from limits; None without a fit."""
        return limits_of(self.run, self.fitted) if self.fitted else None

    @cached_property
    def claims(self) -> Sequence[Checked]:
        """The literature held against the run; nothing without a fit."""
        return check_claims(self.run, self.fitted) if self.fitted else ()

    @cached_property
    def _frames(self) -> Mapping[str, pd.DataFrame]:
        assert self.fitted is not None
        return {
            "points": points_frame(self.fitted),
            "positions": positions_frame(self.fitted),
            "forwards": forwards_frame(self.run, self.fitted),
        }

    def pictures(self, names: Sequence[str]) -> list[Part]:
        """The figures of those names that the run has data for, and what the others lack."""
        return pictures(names, self._frames) if self.fitted else []
