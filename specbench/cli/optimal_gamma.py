"""``specbench optimal-gamma``: which draft length to use, from a run or from two numbers.

With ``--alpha`` and ``--cost`` nothing heavier than ``math`` is imported, so the answer is there at
once (options arrive as text because typer's own conversion is what takes long); with a run the
records are read and fitted.

    specbench optimal-gamma --alpha 0.8 --cost 0.02
    specbench optimal-gamma results/main --format json
    specbench optimal-gamma results/main --policy policy.toml
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specbench.cli._output import FORMAT_METAVAR, OutputFormat, print_csv, print_json, print_notes
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.analysis.recommending import Answer


def optimal_gamma(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run's folder, or its name in results/.")
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(metavar="A", help="Chance that an evaluated token is accepted, 0 to 1."),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(metavar="C", help="c: time of a drafter step / time of a target step."),
    ] = None,
    max_gamma: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="The longest draft to consider; default 16, with a RUN also all measured ones.",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar=FORMAT_METAVAR, help="How to print the answer.")
    ] = "table",
    policy: Annotated[
        str | None,
        typer.Option(metavar="FILE.toml", help="Write the policy over batch sizes to this file."),
    ] = None,
) -> None:
    """Say which draft length gamma to use; 0 means "do not speculate".

    From --alpha and --cost: the closed form (Leviathan et al. 2023) for every gamma, its best, what
    becomes of it if alpha is 0.05 off, and the largest c that still pays.

    From a RUN, for each task, temperature and batch size: the drafter and gamma with the highest
    fitted speedup. Fitted means: tokens per round from the acceptance model of all gammas, round
    times on lines through all gammas, so that no gamma wins by luck. It counts only if its lower
    95% bound lies above 1, a bound that holds for everything compared in the run together, and its
    speedup above the noise floor of the block's two baselines. Within 1% the shorter draft is
    preferred. If nothing counts, the answer is "do not speculate", with a question mark where
    the data don't speak against a gain either: that is undecided, and more must be measured.

    Beside it: how often it is the best over a bootstrap of conversations, and what one stands to
    lose if it is not; from which batch size speculation stops paying; how long an answer must be;
    sequences that the drafter's memory costs; one policy for a server whose load varies; lines for
    vLLM, SGLang and Hugging Face.

    Trees and gamma=auto have no single alpha: they answer at measured gammas only (a tree's levels,
    the longest draft). Gammas outside the measured ones appear in JSON and CSV, marked as
    extrapolated, and are never recommended; neither are cells whose output DIVERGED from plain
    decoding, nor synthetic drafters: their best gamma at the alpha that was set stands apart.
    """
    chosen, longest = OutputFormat.of(format), _longest(max_gamma)
    if run is not None and (alpha is not None or cost is not None):
        raise SpecbenchError(
            "give a RUN or --alpha and --cost, not both", "A RUN brings its own alpha and cost"
        )
    if run is not None:
        _from_run(run, longest, chosen, policy)
        return
    if policy is not None:
        raise SpecbenchError("--policy needs a RUN", "Two numbers tell nothing of batch sizes")
    if alpha is None or cost is None:
        missing = "--cost" if cost is None else "--alpha"
        raise SpecbenchError(
            f"{'RUN' if alpha is None and cost is None else missing} is missing",
            "Give a RUN, or --alpha and --cost: specbench optimal-gamma --alpha 0.8 --cost 0.02",
        )
    from specbench.cli._numbers_answer import answer_numbers
    from specbench.theory.closed_form import DEFAULT_MAX_GAMMA

    answer_numbers(
        _number("--alpha", alpha), _number("--cost", cost), longest or DEFAULT_MAX_GAMMA, chosen
    )


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecbenchError(f"{option} {text!r} is not a number", "For example: 0.8") from None


def _longest(text: str | None) -> int | None:
    if text is None:
        return None

    from specbench.theory.closed_form import LONGEST_GAMMA

    try:
        longest = int(text)
    except ValueError:
        longest = 0
    if not 1 <= longest <= LONGEST_GAMMA:
        raise SpecbenchError(
            f"--max-gamma {text!r} is out of range",
            f"Give a whole number from 1 to {LONGEST_GAMMA}",
        )
    return longest


def _from_run(run: str, max_gamma: int | None, format: OutputFormat, policy: str | None) -> None:
    from pathlib import Path

    from specbench.analysis.fit import fit_run
    from specbench.analysis.recommending import recommend
    from specbench.analysis.recommending.document import optimal_document, optimal_rows
    from specbench.cli._optimal_table import print_answer
    from specbench.records.store import load_run

    if policy is not None and not Path(policy).parent.is_dir():
        raise SpecbenchError(f"cannot write {policy}: there is no folder {Path(policy).parent}")
    answer = recommend(fit_run(load_run(run)), max_gamma)
    if policy is not None:
        _write_policy(policy, answer)
    if format == OutputFormat.JSON:
        print_json(optimal_document(answer))
    elif format == OutputFormat.CSV:
        print_csv(optimal_rows(answer))
    else:
        print_answer(answer)
    print_notes(answer.notes)


def _write_policy(file: str, answer: Answer) -> None:
    from pathlib import Path

    from specbench.analysis.recommending.toml import policy_toml
    from specbench.records.files import disk_errors, write_durably

    with disk_errors(f"the policy to {file}", "--policy"):
        write_durably(Path(file), policy_toml(answer).encode())
