"""``specbench drafters``: the kinds of drafter there are, without starting torch."""

from __future__ import annotations


def drafters() -> None:
    """List the kinds of drafter and how to write each as --drafter SPEC."""
    from specbench.cli._output import print_described

    print_described("drafters")
    print(
        "\nmodel, eagle and medusa without an argument are those that come with specbench,\n"
        "trained for its default target\n"
        "\nwritten as kind[:argument][,key=value]..., for example\n"
        "  specbench run --drafter ngram,max=3 --drafter early-exit:6"
    )
