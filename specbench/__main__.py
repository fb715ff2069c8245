"""``python -m specbench`` is the command ``specbench``."""

from __future__ import annotations

from specbench.cli.main import main

if __name__ == "__main__":
    main()
