"""Obtains the tiny default in a process of its own: ``child.py SHA256 [MOMENT] [FLAG_FOLDER]``.

MOMENT says what happens during the conversion: ``kill`` ends the process with SIGKILL when half a
file is written; ``wait`` writes FLAG_FOLDER/converting and goes on when FLAG_FOLDER/go is there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from specbench.weights import embedded, gguf


def main(sha256: str, moment: str = "", flag_folder: str = ".") -> None:
    embedded.GGUF_SHA256 = sha256
    embedded.NEEDED_BYTES = 1
    convert = gguf.convert

    def slow_convert(path: Path, folder: Path, *rest: object) -> object:
        if moment == "kill":
            folder.mkdir()
            (folder / "model.safetensors").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        if moment == "wait":
            (Path(flag_folder) / "converting").touch()
            for _ in range(6000):
                if (Path(flag_folder) / "go").exists():
                    break
                time.sleep(0.1)
        return convert(path, folder, *rest)

    gguf.convert = slow_convert
    print(embedded.obtain().provenance["served_from"])


if __name__ == "__main__":
    main(*sys.argv[1:])
