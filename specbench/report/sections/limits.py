"""How far the run is from limits of hardware and drafting, and whether its numbers add up."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.machine.columns import known_columns
from specbench.analysis.machine.limits import DraftingLimit, StepLimit, VerifyLimit
from specbench.analysis.machine.measured import MachineUse
from specbench.analysis.pooling import Setting
from specbench.analysis.shown.formats import MISSING, milliseconds, number, share
from specbench.records.schema import BASELINE_DRAFTER
from specbench.report.material import Material
from specbench.report.parts import Bullet, Bullets, Field, Paragraph, Part, Rows, Table
from specbench.report.sections.warnings import IMPOSSIBLE

TITLE, ORDER = "Limits and identities", 60
FIGURES = ("bandwidth-roofline",)

_STEPS = ("setting", "step ms", "bytes ms", "of step", "operations ms", "of step")
_STEP_NOTES = (
    "bytes ms: weights, keys and values at the measured peak bandwidth, no step is faster; "
    "operations ms: at the measured matmul rate",
)
_MACHINE = ("drafter", "T", "B", "γ")
_VERIFY = ("drafter", "γ", "tokens", "v measured", "v of the roofline")
_VERIFY_NOTES = ("tokens: of all rows in one target forward",)
_DRAFTING = ("drafter", "γ", "verified", "accepted", "reference", "α", "max p")
_DRAFTING_NOTES = (
    "accepted: drafted tokens per round; reference: what the target's entropy sets for so many "
    "verified tokens (Pankratov and Alistarh, arXiv 2512.11718), asymptotic, no bound",
    "no one-hot draft has an α above the mean of max p",
)
_IDENTITIES = (
    "τ is at most γ + 1 (of a tree: its depth + 1)",
    "accepted tokens, plus one a round, less what was cut, are the tokens of the output",
    "time per output token is time per step / τ",
    "acceptance does not rise with position, and no position is always accepted",
    "throughput is at most batch size / time per output token",
    "draft, verify and other time make up the rounds, the rounds the decoding, prefill and "
    "decoding the whole",
)


def section(material: Material) -> Sequence[Part]:
    """Tables of the three limits, what is lacking for them, and the six identities."""
    limits = material.limits
    if limits is None or material.fitted is None:
        return []
    parts: list[Part] = list(material.pictures(FIGURES))
    if limits.uses:
        parts.append(_machine(limits.uses, material))
    if limits.steps:
        steps = [Rows([_step(step) for step in limits.steps])]
        parts.append(Table("A plain decoding step", _STEPS, steps, notes=_STEP_NOTES))
    verify = [limit for limit in limits.verification if limit.roofline is not None]
    if verify:
        rows = _by_setting(verify, material)
        parts.append(Table("Verification", _VERIFY, rows, notes=_VERIFY_NOTES))
    if limits.drafting:
        rows = _by_setting(limits.drafting, material)
        parts.append(Table("Drafting above T = 0", _DRAFTING, rows, notes=_DRAFTING_NOTES))
    parts += [Paragraph(f"{text[:1].upper()}{text[1:]}.", "note") for text in limits.lacking]
    return [*parts, *_identities(material.fitted.warnings)]


def _identities(warnings: Sequence[str]) -> list[Part]:
    broken = [text for text in warnings if text.startswith(IMPOSSIBLE)]
    if not broken:
        said = Paragraph(
            "Every cell obeys the six identities of honest numbers, as far as it has them:"
        )
        return [said, Bullets([Bullet(text) for text in _IDENTITIES])]
    said = Paragraph("Not every cell obeys the six identities of honest numbers:", "loud")
    return [said, Bullets([Bullet(text, "loud") for text in broken])]


def _machine(uses: Sequence[MachineUse], material: Material) -> Table:
    known = known_columns(uses)
    rows = []
    for use in uses:
        plain = use.drafter == BASELINE_DRAFTER
        label = "plain decoding" if plain else material.names[use.drafter]
        key = [f"{use.temperature:g}", str(use.batch_size), MISSING if plain else str(use.gamma)]
        rows.append([label, *key, *(column.text(use) for column in known.values())])
    meanings = [column.meaning for column in known.values()]
    notes = ("; ".join(["medians over tasks and repeats", *meanings]),)
    return Table("The machine", (*_MACHINE, *known), [Rows(rows)], notes=notes)


def _step(step: StepLimit) -> list[Field]:
    return [
        str(step.setting),
        milliseconds(step.step_s),
        milliseconds(step.moving_s),
        share(step.bandwidth_share),
        milliseconds(step.computing_s),
        share(step.compute_share),
    ]


def _by_setting(
    limits: Sequence[VerifyLimit] | Sequence[DraftingLimit], material: Material
) -> list[Rows]:
    found: dict[Setting, list[list[Field]]] = {}
    for limit in limits:
        name = material.names[limit.key.drafter]
        found.setdefault(limit.key.setting, []).append(_row(limit, name))
    return [Rows(rows, str(setting)) for setting, rows in found.items()]


def _row(limit: VerifyLimit | DraftingLimit, name: str) -> list[Field]:
    head = [name, str(limit.gamma)]
    if isinstance(limit, VerifyLimit):
        return [*head, f"{limit.tokens:.1f}", number(limit.v), number(limit.roofline)]
    return [
        *head,
        f"{limit.verified:.1f}",
        number(limit.accepted),
        number(limit.reference),
        number(limit.alpha),
        number(limit.most_one_hot),
    ]
