"""Fetches a model from the Hugging Face hub, through its own client and its own cache.

The client honours ``HF_HOME``, ``HF_ENDPOINT``, ``HF_TOKEN``, proxies and ``HF_HUB_OFFLINE``. A
model that is in the cache needs no connection. Only what loading needs is fetched: safetensors
where the repository has them, and never the same weights in two forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError, short_reason
from specbench.weights.progress import SILENT, Progress, tree_size, watch_size
from specbench.weights.source import WEIGHT_PATTERNS, weight_files

_SIDE_FILES = ("*.json", "*.jinja", "*.model", "*.spm", "*.txt", "*.tiktoken")
_SHA256 = re.compile(r"[0-9a-f]{64}")


Look = Callable[[Path, int], None]
"""Given a folder with a model's config and the bytes of its weight files, there or yet to be
fetched; raises what stands against them."""


@dataclass(frozen=True)
class Snapshot:
    """One revision of a hub model on this machine."""

    folder: Path
    revision: str


def cache_dir() -> Path:
    """Where the hub's client keeps models."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def snapshot(
    name: str,
    progress: Progress = SILENT,
    folder: Path | None = None,
    weights: Sequence[str] = WEIGHT_PATTERNS,
    sides: Sequence[str] = _SIDE_FILES,
    look: Look | None = None,
) -> Snapshot:
    """Bring a model here, or find it in the hub's cache.

    Args:
        name: ``ORG/NAME`` (or ``NAME``).
        folder: put the files there instead of the hub's cache.
        weights: patterns of its weight files; the first that matches is fetched.
        sides: patterns of what else is fetched.
        look: sees what else was fetched before the weights are.

    Raises:
        SpecbenchError: no such model, no access, or no connection and nothing cached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        info = HfApi().model_info(name, files_metadata=True)
        return _download(name, info, folder, progress, weights, sides, look)
    except HFValidationError as error:
        raise SpecbenchError(
            f"{name!r} is neither a path nor a valid hub name", "Hub names look like ORG/NAME"
        ) from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403, 404):
            raise _refusal(name, status) from error
        return _from_cache(name, folder, weights, look, error)
    except SpecbenchError:
        raise
    except Exception as error:  # transport errors have other classes in each version of the client
        return _from_cache(name, folder, weights, look, error)


def blob_sha256(file: Path) -> str | None:
    """The sha256 that the hub's cache keeps as the name of a weight file's content, if it does."""
    name = file.resolve().name
    return name if file.is_symlink() and _SHA256.fullmatch(name) else None


def _download(
    name: str,
    info: Any,
    folder: Path | None,
    progress: Progress,
    weights: Sequence[str],
    sides: Sequence[str],
    look: Look | None,
) -> Snapshot:
    from huggingface_hub import snapshot_download

    def fetched(files: Iterable[str]) -> Path:
        # By name in the hub's own cache: only then does it note which commit "main" is, offline.
        revision = info.sha if folder else None
        return Path(
            snapshot_download(
                name, revision=revision, allow_patterns=sorted(files), local_dir=folder
            )
        )

    sizes = {entry.rfilename: entry.size or 0 for entry in info.siblings or []}
    wanted = wanted_files(sizes, weights, sides)
    total_bytes = sum(sizes[file] for file in wanted)
    if look is not None:
        beside = {file for file in wanted if not any(fnmatch(file, p) for p in weights)}
        look(fetched(beside), total_bytes - sum(sizes[file] for file in beside))
    target = folder or cache_dir() / f"models--{name.replace('/', '--')}"
    with watch_size(progress, f"downloading {name}", lambda: tree_size(target), total_bytes):
        path = fetched(wanted)
    return Snapshot(path, info.sha if folder else path.name)


def wanted_files(names: Iterable[str], weights: Sequence[str], sides: Sequence[str]) -> set[str]:
    """The files of a repository that loading needs, at its top level, weights in one format."""
    top = {name for name in names if "/" not in name}
    wanted = {name for name in top if any(fnmatch(name, pattern) for pattern in sides)}
    for pattern in weights:
        found = {name for name in top if fnmatch(name, pattern)}
        if found:
            return wanted | found
    return wanted


def _from_cache(
    name: str,
    folder: Path | None,
    weights: Sequence[str],
    look: Look | None,
    error: Exception,
) -> Snapshot:
    """The newest revision in the hub's cache, for a machine without a connection."""
    from huggingface_hub import try_to_load_from_cache

    if folder is None:
        config = try_to_load_from_cache(name, "config.json")
        files = weight_files(Path(config).parent, weights) if isinstance(config, str) else []
        if files:
            found = Path(str(config)).parent
            if look is not None:
                look(found, sum(file.stat().st_size for file in files))
            return Snapshot(found, found.name)
    where = "" if folder else f", and its cache {cache_dir()} holds no complete copy"
    raise SpecbenchError(
        f"the hub model {name!r} can't be fetched ({short_reason(error)}){where}",
        "Check HF_ENDPOINT, HF_HUB_OFFLINE, the proxy and HF_HOME, or pass a path",
    ) from error


def _refusal(name: str, status: int) -> SpecbenchError:
    return SpecbenchError(
        f"the hub has no model {name!r} that this account may read (HTTP {status})",
        "Check the spelling; for a private or gated model set HF_TOKEN",
    )
