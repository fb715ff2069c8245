"""``specbench tasks``: the workloads there are, and where the prompts of each come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specbench.workloads.task_file import TaskFile


def tasks() -> None:
    """List the tasks with their sources, licences and the prompts that ship with specbench."""
    from specbench import registry
    from specbench.workloads.task_file import read_task_file

    for name in registry.names("tasks"):
        print("\n".join(_lines(read_task_file(registry.path("tasks", name)))))
    print(
        "\nThe hub is read first, then the package, then the prompts shipped here, and the\n"
        "run says which it was (--prompt-source chooses). Your own: --task FILE.jsonl"
    )


def _lines(task: TaskFile) -> list[str]:
    from specbench.cli._output import wrapped

    indent = " " * 15
    lines = [wrapped(task.description, f"{task.name:<15}", indent)]
    if task.hub is not None:
        config = f" {task.hub.config}" if task.hub.config else ""
        lines += [
            f"{indent}hub      {task.hub.dataset}{config} ({task.hub.split})",
            f"{indent}         revision {task.hub.revision[:12]}, {task.hub.licence}",
        ]
    if task.package is not None:
        from specbench.records.provenance import package_versions

        version = package_versions((task.package.name,))[task.package.name]
        there = f"{version} is installed" if version else "not installed"
        lines.append(f"{indent}package  {task.package.name} ({there}), {task.package.licence}")
    lines.append(f"{indent}offline  {len(task.offline_prompts())} prompts, {task.licence}")
    return lines
