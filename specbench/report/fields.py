"""Fields that several tables share: intervals beside their values, marks before them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.pooling import Setting
from specbench.analysis.shown.formats import FORM_MARKS, alpha_mark, form_notes, interval, number
from specbench.analysis.shown.marks import speedup_mark
from specbench.analysis.shown.names import gamma_label, load_label
from specbench.records.schema import DraftForm
from specbench.report.parts import Field, Measured

NOT_TOLD_APART = (
    "~ not told apart from no speedup: by its interval, the noise floor, or no interval"
)


def measured(
    value: float | None, ends: tuple[float, float] | None, digits: int = 2, mark: str = ""
) -> Field:
    """A value with its interval, or a dash."""
    if value is None:
        return number(value)
    return Measured(number(value, digits), interval(ends, digits) if ends else "", mark)


def alpha(group: GroupFit) -> Field:
    """A group's alpha, marked where it is no real drafter's chain's."""
    mark = alpha_mark(group.draft_form, group.synthetic)
    return measured(group.alpha, group.alpha_ci, mark=mark)


def gamma(group: GroupFit, point: GammaFit) -> str:
    """Gamma, of an adaptive draft with its mean length."""
    return gamma_label(group.draft_form, point.gamma, point.draft_length_mean)


def speedup(point: GammaFit) -> Field:
    """The measured speedup; ``~`` where it is not told apart from none, ``*`` where it DIVERGED."""
    return measured(point.speedup, point.speedup_ci, mark=speedup_mark(point))


def marks(forms: Collection[DraftForm], column: str) -> list[str]:
    """What the marks of drafts that are no chains mean, one note each.

    Args:
        column: the prediction's heading.
    """
    return [
        " ".join(line.strip() for line in form_notes({form}, column))
        for form in FORM_MARKS
        if form != "chain" and form in forms
    ]


def places(settings: Iterable[Setting], among: Iterable[Setting]) -> list[str]:
    """Each setting by what tells it from the others: ``code (T = 0)``.

    Args:
        among: all settings of the run; what they share is not said.
    """
    columns = {
        name: set(column)
        for name, column in zip(Setting._fields, zip(*among, strict=True), strict=True)
    }
    varies = {name for name, values in columns.items() if len(values) > 1}
    if "request_rate" in varies:  # one text tells both
        varies = {*varies, "batch_size"} - {"request_rate"}
    return [_place(setting, varies) for setting in settings]


def _place(setting: Setting, varies: Collection[str]) -> str:
    if not varies:
        return str(setting)
    texts = {
        "temperature": f"T = {setting.temperature:g}",
        "batch_size": load_label(setting.batch_size, setting.request_rate),
        "target": setting.target,
        "backend": setting.backend,
        "top_k": f"top-k {setting.top_k}",
        "top_p": f"top-p {setting.top_p:g}",
        "context_length": f"context {setting.context_length}",
    }
    rest = ", ".join(text for name, text in texts.items() if name in varies)
    if "task" not in varies:
        return rest
    return f"{setting.task} ({rest})" if rest else setting.task
