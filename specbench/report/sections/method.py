"""How the numbers were made, in plain words: estimators, intervals, blocks, what is not claimed."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.records.conversations import FEW_PROMPTS
from specbench.report.material import Material
from specbench.report.parts import Facts, Paragraph, Part
from specbench.theory.clusters import MIN_TIME_BLOCKS
from specbench.theory.intervals import BOOTSTRAP_FROM

TITLE, ORDER = "Method", 100
FIGURES: tuple[str, ...] = ()

_OWN = (
    (
        "Blocks",
        "A block is one task, temperature, batch size and repeat. Plain decoding runs first and "
        "last in it, the drafters between in random order, all on the same engine and the same "
        "prompts. How much the two runs of plain decoding differ is the noise floor: a speedup "
        "inside it is not claimed.",
    ),
    (
        "Time",
        "Warm-up is not counted. Decoding is timed apart from prefill, and draft, verification and "
        "the rest of a round apart from each other. Above batch size 1 speed is counted over steps "
        "in which every slot is full.",
    ),
    (
        "Output",
        "At temperature 0 every output is compared, token by token, with plain decoding: "
        "identical; near-tie, where only rounding decides; or DIVERGED, a bug. Above it outputs "
        "differ rightly and there is no verdict.",
    ),
)
_SERVED = (
    (
        "Servers",
        "Requests are sent to a running server, so many in flight or so many per second, and "
        "their streams are timed; acceptance is what the server's own counters rose by. Speedup is "
        "of time per output token after the first. Rounds are not seen, so c, v and o are not "
        "known.",
    ),
)
_ALL = (
    (
        "α",
        "Accepted tokens / evaluated tokens. A drafted token is evaluated if the target looked at "
        "it: those up to the first rejection. Accepted / drafted is smaller and no α.",
    ),
    (
        "τ",
        "Tokens committed per target forward: 1 + accepted / rounds, the target's own token "
        "included.",
    ),
    (
        "Speedup",
        "Plain decoding's seconds per token / speculative decoding's seconds per token, same "
        "prompts, same engine, same run.",
    ),
    (
        "c, v, o",
        "Times in units of T1, plain decoding's whole time per step: of one drafter step, of one "
        "verification, of the rest of a round.",
    ),
    (
        "Intervals",
        "All are 95%. Rounds of one conversation resemble each other, so conversations are the "
        f"units, not rounds: from {BOOTSTRAP_FROM} up a bootstrap over conversations, below "
        "Student's t on their residuals; where few of them hold most tokens they count as fewer. "
        "Above batch size 1 times are shared by a batch, so their "
        f"units are blocks of time, at least {MIN_TIME_BLOCKS}. Below {FEW_PROMPTS} conversations "
        "an interval means little, and a warning says so. Those of costs and speedups hold what "
        "cells differ by that were measured one after the other, as baselines and draft lengths "
        "tell it.",
    ),
    (
        "Closed form",
        "(1 − α^(γ+1)) / ((1 − α)(γc + 1)), by Leviathan, Kalman and Matias 2023 (arXiv "
        "2211.17192): every token accepted with one chance α, verification as fast as a plain "
        "step, nothing else costs time.",
    ),
    (
        "Extended model",
        "τ / (draft + v + o): the acceptance model that fits, the drafts as long as they were, and "
        "the times of a round as they were measured.",
    ),
)


def section(material: Material) -> Sequence[Part]:
    """Terms and what they mean; of imported results only what holds for them."""
    cells = material.run.cells
    served = any(cell.server is not None for cell in cells)
    tools = dict.fromkeys(
        cell.imported_from for cell in cells if cell.imported_from and cell.server is None
    )
    parts: list[Part] = []
    if tools:
        parts.append(
            Paragraph(
                f"These numbers were measured by {', '.join(tools)} and imported: how is for that "
                "tool to say. What it does not tell is not known here, and shown as a dash."
            )
        )
    own = any(cell.imported_from is None for cell in cells)
    return [*parts, Facts([*_ALL, *(_OWN if own else ()), *(_SERVED if served else ())])]
