"""The benchmark of convolutions counts them rightly, and says so where it cannot measure; nothing here needs a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from scripts import load_script

import reprise
from reprise import nets
from reprise.fleet.engine.layers import Block
from reprise.nets.resnet import ResNet18

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "convolutions.py"


@pytest.fixture(scope="module")
def bench() -> types.ModuleType:
    return load_script(SCRIPT)


@pytest.fixture(scope="module")
def net() -> ResNet18:
    with torch.device("meta"):
        return ResNet18(100)


def test_where_there_is_no_gpu_the_script_says_so_in_a_sentence(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    environment = {**os.environ, "PYTHONPATH": str(Path(reprise.__file__).parents[1])}
    command = [sys.executable, "-W", "error", str(SCRIPT), "--tune", "--markdown", "table.md"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert done.stderr == "This benchmark needs a CUDA device, and torch finds none here.\n"
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_network_has_twenty_convolutions_of_eleven_shapes(bench: types.ModuleType, net: ResNet18) -> None:
    jobs = bench.jobs_of(net, 32)
    counts = {way: [times for job, times in jobs.items() if job[0] == way] for way in bench.WAYS.values()}
    assert {way: (len(times), sum(times)) for way, times in counts.items()} == {
        "forward": (11, 20),
        "input gradient": (7, 16),  # three are done with the 3×3 beside them, and images need none
        "weight gradient": (11, 20),
    }
    pulled = [layer for (way, job), times in jobs.items() if way == "input gradient" for layer in job * times]
    assert len(pulled) == 19


def test_products_are_counted_as_torch_computes_them(bench: types.ModuleType, net: ResNet18) -> None:
    """Against the shapes that the modules see, and the sum by hand."""
    jobs, seen = bench.jobs_of(net, 32), []

    def count(module: torch.nn.Conv2d, _: object, out: torch.Tensor) -> None:
        seen.append(2 * out.numel() * module.weight[0].numel())

    hooks = [one.register_forward_hook(count) for one in net.modules() if isinstance(one, torch.nn.Conv2d)]
    net.features(torch.empty(40, 3, 32, 32, device="meta"))
    for hook in hooks:
        hook.remove()
    found = {way: sum(bench.flops(job) * n for job, n in jobs.items() if job[0] == way) for way in bench.WAYS.values()}
    assert len(seen) == 20
    assert found["forward"] == found["weight gradient"] == sum(seen)
    assert found["input gradient"] == sum(seen) - seen[0]
    assert found["forward"] / 1e9 == pytest.approx(44.43, abs=0.01)


def test_sums_count_every_convolution_as_often_as_it_occurs(bench: types.ModuleType, net: ResNet18) -> None:
    jobs = bench.jobs_of(net, 32)
    used, best, worst = Block(128, 64, 64, 4, 3), Block(64, 64, 64, 4, 4), Block(256, 64, 64, 8, 3)
    fast = {job: float(place) for place, job in enumerate(jobs, 1)}
    mine = {job: {used: us, worst: 9 * us, best: us / 2} for job, us in fast.items()}
    theirs = dict.fromkeys(jobs, 4.0)
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in bench.table(jobs, mine, theirs).splitlines()]
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == 2 + 29 + 4
    assert rows[2][:7] == ["forward", "3→64 3×3/1 at 32²", "1", "1.00", "141.6", "4.00", "0.25"]
    assert rows[2][7:] == ["128/64/64/4/3", "64/64/64/4/4 0.50, 128/64/64/4/3 1.00, 256/64/64/8/3 9.00"]
    assert sum("/2 + 1×1 at" in row[1] for row in rows) == 3
    *ways, whole = rows[-4:]
    for row, way in zip(ways, bench.WAYS.values(), strict=True):
        us = sum(times * fast[job] for job, times in jobs.items() if job[0] == way)
        peer = 4.0 * sum(times for job, times in jobs.items() if job[0] == way)
        assert (row[0], row[3], row[5], row[6]) == (way, f"{us:.2f}", f"{peer:.2f}", f"{us / peer:.2f}")
    assert (whole[0], whole[2], whole[5]) == ("all", "56", "224.00")
    assert float(whole[3]) == pytest.approx(sum(float(row[3]) for row in ways))
    alone = bench.table(jobs, {job: {used: us} for job, us in fast.items()}, theirs).splitlines()[2]
    assert alone.split("|")[-2].strip() == ""  # nothing else was tried


def test_what_is_timed_is_what_a_step_calls(bench: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed: kernels are only asked for, and the timer gives what each is worth."""
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")  # counts if Triton has not been imported yet
    pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for a GPU")
    from reprise.fleet.engine import stack

    small = nets.build(classes=5, width=2)
    jobs, launched = bench.jobs_of(small, 8), []
    monkeypatch.setattr(stack, "launch", lambda kernel, *_, **settings: launched.append(settings))
    calls = bench.calls_of(bench.make_stack(small, 2, 8, "bf16", "cpu"))
    assert {job: len(each) for job, each in calls.items()} == jobs

    def timed(work: object) -> float:
        launched.clear()
        work()  # type: ignore[operator]
        return float(launched[0]["bm"])

    monkeypatch.setattr(bench, "timed", timed)
    found = bench.ours(lambda: bench.make_stack(small, 2, 8, "bf16", "cpu"), "bf16", tune=True)
    assert set(found) == set(jobs)
    tried = {way: {tile.bm for job, tiles in found.items() if job[0] == way for tile in tiles} for way, _ in jobs}
    assert tried == {"forward": {64, 128, 256}, "input gradient": {64, 128, 256}, "weight gradient": {16}}
    for tiles in found.values():
        assert len(tiles) > 3
        assert {tile: tile.bm / 2 for tile in tiles} == tiles  # two runs
    forward = [next(iter(tiles)) for (way, _), tiles in found.items() if way == "forward"]
    assert {(tile.bm, tile.num_stages) for tile in forward} == {
        (128, 3),
        (64, 4),
    }  # as layers.py has them, large and small
