"""``specbench drafters``: the kinds of drafter there are, without starting torch."""

from __future__ import annotations


def drafters() -> None:
    """List the kinds of drafter and how to write each as --drafter SPEC."""
    import textwrap

    from specbench import registry

    for name in registry.names("drafters"):
        description = registry.describe("drafters", name).replace("``", "").replace("`", "")
        print(
            textwrap.fill(description, 80, initial_indent=f"{name:<14}", subsequent_indent=" " * 14)
        )
    print(
        "\nwritten as kind[:argument][,key=value]..., for example\n"
        "  specbench run --drafter ngram,max=3 --drafter early-exit:6"
    )
