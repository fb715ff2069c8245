"""The command line: ``main.py`` and one file per command.

``cli/optimal_gamma.py`` is the command ``optimal-gamma``: it defines one function with the file's
own name (``optimal_gamma``), whose parameters are typer's and whose docstring is the help text.
Nothing has to be registered. ``main.py`` imports every command file at each start, so a command
file imports only typer, rich and ``specbench.errors`` at its top, and everything heavier (torch,
pandas, pydantic, numpy) inside its function. Files that are no command: ``main.py``, ``console.py``
and names that begin with an underscore.

Data goes to stdout, messages and progress to stderr. An expected failure is raised as
:class:`specbench.errors.SpecbenchError` and becomes one line on stderr and exit code 2.
"""
