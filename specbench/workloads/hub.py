"""Reads a published data set, at its pinned commit, through `datasets`.

Six prompts do not download gigabytes (streaming, one split); a hub that does not answer costs
seconds, once; local caches are used where they hold the pinned commit, and never another one.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specbench.errors import short_reason
from specbench.workloads.sources import UnavailableError
from specbench.workloads.task_file import HubSource

#: Rows that are read to choose the prompts from.
POOL = 1000
#: How long the hub may take to answer at all, and to send the first row or one more.
CONNECT_SECONDS = 5.0
ROW_SECONDS = 30.0


def hub_rows(source: HubSource, count: int) -> tuple[str, list[Mapping[str, Any]]]:
    """(source name with the commit, the first rows) of a data set: ``max(count, POOL)`` of them.

    A local folder is read as it is. Otherwise, in this order: the hub cache's snapshot of the
    commit, the `datasets` cache of the commit, the hub itself.

    Raises:
        UnavailableError: with what was tried and why each failed.
    """
    if importlib.util.find_spec("datasets") is None:
        raise UnavailableError("package datasets is not installed")
    wanted = max(count, POOL)
    if Path(source.dataset).is_dir():
        with _quick_and_quiet():
            return f"folder:{source.dataset}", _folder(source.dataset, source, wanted)
    name = f"hub:{source.dataset}@{source.revision[:7]}"
    reasons: list[str] = []
    readers: tuple[Callable[[HubSource, int], list[Mapping[str, Any]]], ...]
    readers = (_hub_snapshot, _datasets_cache, _hub_stream)
    with _quick_and_quiet():
        for reader in readers:
            try:
                return name, reader(source, wanted)
            except UnavailableError as reason:
                if str(reason):
                    reasons.append(str(reason))
    raise UnavailableError(f"{name}: {'; '.join(reasons)}")


def _folder(folder: str, source: HubSource, count: int) -> list[Mapping[str, Any]]:
    import datasets

    try:
        stream = datasets.load_dataset(
            folder, name=source.config, split=source.split, streaming=True
        )
        return list(itertools.islice(stream, count))
    except Exception as error:
        raise UnavailableError(f"folder {folder} cannot be read ({short_reason(error)})") from None


def _hub_snapshot(source: HubSource, count: int) -> list[Mapping[str, Any]]:
    """From what ``hf download --repo-type dataset`` left in the hub's cache, at the same commit."""
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(
            source.dataset, repo_type="dataset", revision=source.revision, local_files_only=True
        )
        return _folder(folder, source, count)
    except Exception:
        # Not there, or only parts of it (streaming leaves a README): no reason worth a word.
        raise UnavailableError("") from None


def _datasets_cache(source: HubSource, count: int) -> list[Mapping[str, Any]]:
    """From what an earlier ``load_dataset`` prepared, if it is of the same commit."""
    import datasets

    try:
        with _settings(datasets.config, HF_HUB_OFFLINE=True):
            builder = datasets.load_dataset_builder(source.dataset, name=source.config)
            commit = Path(builder.cache_dir).name
            if commit != source.revision:
                raise UnavailableError(f"the local cache holds commit {commit[:7]}")
            rows = builder.as_dataset(split=source.split)
        return list(itertools.islice(rows, count))
    except UnavailableError:
        raise
    except Exception:
        raise UnavailableError("not in the local cache") from None


def _hub_stream(source: HubSource, count: int) -> list[Mapping[str, Any]]:
    import datasets
    import huggingface_hub

    if datasets.config.HF_HUB_OFFLINE:
        raise UnavailableError("the hub is switched off (HF_HUB_OFFLINE or HF_DATASETS_OFFLINE)")
    endpoint = huggingface_hub.constants.ENDPOINT
    failure = _endpoint_failure(endpoint)
    if failure:
        raise UnavailableError(f"{endpoint} cannot be reached ({failure})")
    try:  # asked without retries, and with the hub's own words when it refuses
        huggingface_hub.HfApi().dataset_info(
            source.dataset, revision=source.revision, timeout=CONNECT_SECONDS
        )
    except Exception as error:
        raise UnavailableError(f"{endpoint} did not serve it ({short_reason(error)})") from None

    def rows() -> Iterator[Mapping[str, Any]]:
        stream = datasets.load_dataset(
            source.dataset,
            name=source.config,
            split=source.split,
            revision=source.revision,
            streaming=True,
        )
        yield from itertools.islice(stream, count)

    try:
        return _within(ROW_SECONDS, rows())
    except TimeoutError:
        raise UnavailableError(f"{endpoint} sent nothing in {ROW_SECONDS:.0f} s") from None
    except Exception as error:
        raise UnavailableError(f"{endpoint} did not serve it ({short_reason(error)})") from None


@functools.cache
def _endpoint_failure(endpoint: str) -> str | None:
    """Why the hub does not answer, or None; asked once, so that four tasks wait once."""
    import huggingface_hub

    try:  # any answer will do; proxies and certificates are the hub client's own
        huggingface_hub.get_session().head(endpoint, timeout=CONNECT_SECONDS)
    except Exception as error:
        return short_reason(error)
    return None


def _within(seconds: float, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All rows, with a limit on the time to the first and from each to the next.

    Raises:
        TimeoutError: one did not come in time (the reading thread is left to end by itself).
    """
    done = object()
    results: queue.Queue[Any] = queue.Queue()

    def read() -> None:
        try:
            for row in rows:
                results.put(row)
            results.put(done)
        except Exception as error:
            results.put(error)

    threading.Thread(target=read, daemon=True, name="specbench-hub").start()
    collected: list[Mapping[str, Any]] = []
    while True:
        try:
            item = results.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if item is done:
            return collected
        if isinstance(item, Exception):
            raise item
        collected.append(item)


@contextmanager
def _quick_and_quiet() -> Iterator[None]:
    """`datasets` with one retry a second apart instead of 20 over minutes, and without logging."""
    import datasets
    import huggingface_hub

    loggers = (datasets.utils.logging, huggingface_hub.utils.logging)
    verbosities = [logger.get_verbosity() for logger in loggers]
    for logger in loggers:
        logger.set_verbosity_error()
    try:
        with _settings(
            datasets.config,
            STREAMING_OPEN_MAX_RETRIES=1,
            STREAMING_OPEN_RETRY_INTERVAL=1,
            STREAMING_READ_MAX_RETRIES=1,
            STREAMING_READ_RETRY_INTERVAL=1,
            STREAMING_READ_SERVER_UNAVAILABLE_RETRY_INTERVAL=1,
            STREAMING_READ_RATE_LIMIT_RETRY_INTERVAL=1,
        ):
            yield
    finally:
        for logger, verbosity in zip(loggers, verbosities, strict=True):
            logger.set_verbosity(verbosity)


@contextmanager
def _settings(module: Any, **values: object) -> Iterator[None]:
    """Set a module's variables for a while; those that this version lacks are left out."""
    before = {name: getattr(module, name) for name in values if hasattr(module, name)}
    for name in before:
        setattr(module, name, values[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
