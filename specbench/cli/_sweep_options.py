"""Options that ``run`` and ``alpha`` share, defined once; values are text, checked by the sweep.

>>> def command(seed: Seed = None) -> None: ...
"""

from __future__ import annotations

from typing import Annotated

import typer

TargetQuantization = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        help="Quantise the target's weights while it is loaded: int8, int4 (torchao), bnb-8bit or "
        "bnb-4bit (bitsandbytes). Default: as it comes.",
    ),
]
DrafterQuantization = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        help="The same for draft models; one alone with --drafter model:NAME,quantization=METHOD.",
    ),
]
Temperatures = Annotated[
    list[str] | None, typer.Option(metavar="T,T", help="0 is greedy. Default: 0,1.")
]
TopK = Annotated[
    str | None, typer.Option(metavar="N", help="Keep the N likeliest tokens. Default: 0, all.")
]
TopP = Annotated[
    str | None, typer.Option(metavar="P", help="Nucleus sampling. Default: 1, all tokens.")
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|FILE.jsonl",
        help="Workloads, comma-separated or repeated. See specbench tasks. "
        "Default: translation,summarization,code,chat.",
    ),
]
Prompts = Annotated[str | None, typer.Option(metavar="N", help="Prompts per task. Default: 3.")]
MaxNewTokens = Annotated[
    str | None, typer.Option(metavar="N", help="Tokens generated per prompt. Default: 12.")
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="auto, cpu, cuda or cuda:N; cuda:0,cuda:1 spreads the target's layers.",
    ),
]
Dtype = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto, float32, bfloat16 or float16.")
]
Attention = Annotated[str | None, typer.Option(metavar="NAME", help="auto, sdpa or eager.")]
Threads = Annotated[
    str | None,
    typer.Option(metavar="N", help="CPU threads. Default: the cores this process may use."),
]
Seed = Annotated[
    str | None, typer.Option(metavar="N", help="Seed of order and sampling. Default: 0.")
]
IgnoreEos = Annotated[
    bool | None,
    typer.Option("--ignore-eos/--stop-at-eos", help="Always generate the full length."),
]
ChatTemplateArgs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Set a variable of the target's chat template, e.g. enable_thinking=false; repeat "
        "for several.",
    ),
]
PromptSource = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="auto (the hub, else an installed package, else the prompts shipped here), hub, "
        "package or offline.",
    ),
]
