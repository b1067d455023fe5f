"""One run, several commands or processes: it is made once, and whoever cannot make it says so."""

from __future__ import annotations

import socket

from processes import started

from reprise.runs import Run, Store, fingerprints

LINE = "-m reprise train --dataset glyphs --width 2 --per-class 8 --test-per-class 1 --device cpu --out"
RUN = Run.of(dataset="glyphs", width=2, per_class=8, test_per_class=1)
FILES = ["ema.safetensors", "live.safetensors", "tape.safetensors"]


def left(folder):
    """All files in a folder but the index."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_of_two_commands_for_one_run_one_makes_it_and_both_show_it(tmp_path):
    line = [*LINE.split(), str(tmp_path)]
    with started(*line) as first, started(*line) as second:
        said = [process.communicate(timeout=200) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], said
    assert said[0][0] == said[1][0] != ""
    assert sum("this run was finished before; its record is shown" in errors for _, errors in said) == 1
    (record,) = Store(tmp_path).records()
    name = record["identity"]
    assert left(tmp_path) == [*(f"files/{name}/{file}" for file in FILES), "index.md", f"records/{name}.json"]


def test_processes_that_share_a_run_are_all_refused_if_another_makes_it(tmp_path):
    """The first of them asks, and the others hear what it was told."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    line = [*LINE.split(), str(tmp_path)]
    claim = Store(tmp_path).claim(RUN.identity(fingerprints(RUN)))
    try:
        with (
            started(*line, **shared, RANK="0", LOCAL_RANK="0") as first,
            started(*line, **shared, RANK="1", LOCAL_RANK="1") as second,
        ):
            words = [process.communicate(timeout=200)[1].splitlines()[-1] for process in (first, second)]
    finally:
        claim.release()
    assert [first.returncode, second.returncode] == [2, 2]
    assert words == ["reprise: this run is being made by another process"] * 2
    assert left(tmp_path) == []
