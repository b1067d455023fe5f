"""The fleet's benchmarks run to their last line; the parts for a GPU are tried with lanes that only count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scripts import load_script

import reprise
from reprise import nets
from reprise.bench import fleet as bench
from reprise.bench.eager import SEEN, Buffer, Eager
from reprise.bench.lanes import Lanes
from reprise.bench.loops import Size, config, noise
from reprise.bench.profile import REST, by_class, by_name, class_of
from reprise.bench.results import Report
from reprise.fleet import driver
from reprise.fleet.engine.flat_state import initial_row
from reprise.train.pixels import Pixels

ROOT = Path(__file__).resolve().parents[2]
TINY = Size(8, 2, 8, 10, 1, 2, 1)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(reprise.__file__).parents[1])}


def test_on_a_cpu_all_ways_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, with one worker: importing torch takes longer than all that is measured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    if hasattr(os, "sched_getaffinity"):
        one = {min(os.sched_getaffinity(0))}
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: one)
    (tmp_path / "page.md").write_text("<!-- fleet table -->\n<!-- end of fleet table -->\n")
    arguments = ["--device", "cpu", "--quick", "--json", "b.json", "--markdown", "page.md"]
    monkeypatch.setattr(sys, "argv", ["fleet.py", *arguments])
    assert load_script(ROOT / "benchmarks" / "fleet.py").main() == 0
    shown = "".join(capsys.readouterr())
    found = json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))
    ways = [row["what"].partition(",")[0] for row in found["rows"]]
    assert ways[:2] == ["faithful loop", "plain loop"]
    assert ways[2].startswith("fleet on ")
    for row in found["rows"]:
        assert row["skipped"] == ""
        assert row["ms"] > 0
        assert row["what"] in shown
        assert f"| {row['what']} |" in (tmp_path / "page.md").read_text(encoding="utf-8")
    faithful, plain, processes = found["rows"]
    assert faithful["ratio"] is None
    assert plain["ratio"] == pytest.approx(faithful["ms"] / plain["ms"])
    assert processes["at_once"] >= 1


def test_where_there_is_no_gpu_the_script_says_so(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, str(ROOT / "benchmarks" / "fleet.py"), "--device", "cuda"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert "--device cpu does without" in done.stderr


def test_the_faithful_loop_learns() -> None:
    images = noise(TINY)
    eager = Eager(images, torch.device("cpu"), width=2, batch=8, buffer=16)
    before = {name: value.clone() for name, value in eager.net.state_dict().items()}
    first, held = eager.step(), eager.buffer.images.clone()
    assert np.isfinite(first)
    moved = [not torch.equal(before[name], value) for name, value in eager.net.state_dict().items()]
    assert all(moved)
    for name, value in eager.average.state_dict().items():
        if value.is_floating_point():
            expected = before[name] + 8 / 1024 * (eager.net.state_dict()[name] - before[name])
            torch.testing.assert_close(value, expected)
    losses = [eager.step() for _ in range(40)]
    assert np.mean(losses[-5:]) < np.mean([first, *losses[:4]])
    assert not torch.equal(held, eager.buffer.images)
    assert eager.buffer.seen == SEEN * 16 + 41 * 8


def test_the_faithful_loop_augments_as_the_library_does() -> None:
    images = noise(TINY)
    eager = Eager(images, torch.device("cpu"), width=2)
    plain = eager.pixels[:64].float() / 255
    draws = iter([np.full(64, 6), np.full(64, 3)])
    eager.random = SimpleNamespace(randint=lambda *_: next(draws), rand=lambda n: np.arange(n) % 2.0)  # type: ignore[assignment]
    found = eager._augmented(plain)
    crops = torch.tensor([[6, 3, 1], [6, 3, 0]], dtype=torch.int8).repeat(32, 1)
    expected = Pixels(images.train, torch.device("cpu")).augmented(torch.arange(64), crops)
    black = (0 - eager.mean) / eager.std  # both pad with black before they normalise
    assert torch.isclose(found, black).any()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_reservoir_keeps_as_many_as_it_should() -> None:
    buffer = Buffer(torch.zeros(100, 3, 1, 1), torch.zeros(100), 100, np.random.RandomState(0))
    buffer.store(torch.arange(1, 1201.0).view(-1, 1, 1, 1).expand(-1, 3, 1, 1), torch.ones(1200))
    assert 60 < int(buffer.labels.sum()) < 90  # 100 of 1600 are kept, of which 400 came before
    assert torch.equal(buffer.labels > 0, buffer.images[:, 0, 0, 0] > 0)


class CountingLane:
    """Does nothing but count."""

    def __init__(self, run: Any, pixels: Any, test: Any, classes: int, longest: int, tests: int, width: int) -> None:
        self.longest, self.width = longest, width
        self.losses = torch.full((width, longest), torch.nan)
        self.done = self.tested = self.begun = 0

    def begin(self, slot: int, planned: Any, weights: torch.Tensor) -> None:
        assert weights.shape == initial_row(nets.build("resnet18", classes=10, width=2, seed=0)).shape
        assert len(planned.ids) == self.longest
        assert slot == self.begun
        self.begun += 1

    def rewind(self) -> None:
        self.done = 0

    def advance(self, steps: int) -> None:
        assert self.begun == self.width
        self.losses[:, self.done : self.done + steps] = 1.0
        self.done += steps
        assert self.done <= self.longest  # beyond it there is no tape

    def mark(self) -> Any:
        return lambda: True

    def synchronize(self) -> None: ...

    def evaluate(self, slot: int, number: int, ids: np.ndarray) -> None:
        assert slot == number == 0
        self.tested += len(ids)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[CountingLane]:
    """A machine that seems to have a GPU, whose lanes count."""
    module = types.ModuleType("reprise.fleet.engine.lane")
    module.Lane = CountingLane  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(driver, "RUNS_PER_LANE", 2)
    for name in ("synchronize", "reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    events = [
        SimpleNamespace(key="convolve", self_device_time_total=500.0, count=200, device_type="DeviceType.CUDA"),
        SimpleNamespace(key="cudaGraphLaunch", self_device_time_total=9.0, count=10, device_type="DeviceType.CPU"),
    ]

    class Profile:
        def __init__(self, activities: Any) -> None: ...
        def __enter__(self) -> Any:
            return SimpleNamespace(key_averages=lambda: events)

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    return CountingLane


def test_everything_for_a_gpu_is_asked_for(counting: type[CountingLane], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "Size", lambda side, **_: TINY if side == 32 else Size(16, 2, 8, 10, 1, 2, 1))
    told: list[str] = []
    report = Report({})
    whole = bench._Bench(torch.device("cpu"), float("inf"), 70, told.append, report)
    whole.on_a_gpu(quick=False)
    assert [row.skipped for row in report.rows] == [""] * len(report.rows)
    assert [(row.what, row.at_once) for row in report.rows if "captured" in row.what] == [
        (f"{width} captured run{'s' if width > 1 else ''}, {precision}", width)
        for _, precision, widths in bench.PARTS
        for width in widths
    ]
    assert {row.part for row in report.rows} == {"8×8", "16×16"}
    assert sum(row.what.startswith("faithful") for row in report.rows) == 2
    assert all(row.ratio for row in report.rows if not row.what.startswith("faithful"))
    assert [figure.skipped for figure in report.figures] == ["", ""]
    assert [(one.what, one.ms, one.launches) for one in report.shares] == [("convolution and statistics", 0.125, 50)]
    assert len(told) == len(report.rows)


def test_lanes_are_reused_and_looked_at(counting: type[CountingLane], monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes(noise(TINY), TINY, torch.device("cpu"), "bf16")
    assert lanes.timing(1).run_steps == 2
    (alone,) = lanes.made[1]
    assert lanes.timing(5).run_steps == 10
    assert [len(lanes.made[width]) for width in (1, 2)] == [1, 2]
    assert lanes.made[1][0] is alone
    lanes.host_share(2, 300)
    assert [one.done for one in lanes.made[2]] == [lanes.longest, 3]
    lanes.tested()
    assert alone.tested == 2 * 80  # type: ignore[attr-defined]
    monkeypatch.setattr(counting, "advance", lambda self, steps: None)
    lanes.made[2][0].losses[1].fill_(torch.nan)
    with pytest.raises(RuntimeError, match="is not a number"):
        lanes.timing(2)


def test_what_fails_and_what_comes_too_late_is_skipped_with_its_reason(
    counting: type[CountingLane], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "Size", lambda side, **_: TINY)
    monkeypatch.setattr(counting, "advance", lambda self, steps: 1 / 0)
    report = Report({})
    broken = bench._Bench(torch.device("cpu"), float("inf"), 70, lambda _: None, report)
    broken._lanes(noise(TINY), TINY, "bf16", (1, 2), with_figures=True)
    assert [row.skipped[:38] for row in report.rows] == ["ZeroDivisionError: division by zero (t"] * 2
    assert len(report.figures) == 3
    assert all("ZeroDivisionError" in figure.skipped for figure in report.figures if figure.what[0] != "E")
    late = Report({})
    bench._Bench(torch.device("cpu"), 0.0, 70, lambda _: None, late).on_a_gpu(quick=True)
    assert len(late.rows) == 9
    assert {row.skipped for row in late.rows} == {"the 70 seconds were up"}


def test_kernels_are_told_apart() -> None:
    names = {
        "normalise": "norm, residual and ReLU",
        "average": "update: SGD and average",
        "fetch_0d1d2d": "fetch: images and crops",
        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize": "convolution by cuDNN",
        "sm90_xmma_dgrad_implicit_gemm_indexed_bf16": "convolution by cuDNN",
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32>": "convolution by cuDNN",
        "void cudnn::ops::nchwToNhwcKernel<float>": "convolution by cuDNN",
        "conv_input_grad": "convolution backward, ReLU and sums",
        "conv_weight_grad": "convolution, weight gradient",
        "bn_stats": "norm: joining tiles",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>": "matrix products",
        "Memset (Device)": "copies and fills",
        "void at::native::reduce_kernel<512, 1>": REST,
    }
    assert {name: class_of(name) for name in names} == names
    events = [
        SimpleNamespace(key=name, self_device_time_total=1000.0 * place, count=10, device_type="DeviceType.CUDA")
        for place, name in enumerate(names, 1)
    ]
    kernels = by_name(events, 10)
    assert kernels[0].what.startswith("void at::native")
    assert sum(share.ms for share in by_class(kernels)) == pytest.approx(9.1)
    assert by_class(kernels)[0].what == "convolution backward, ReLU and sums"


def test_the_run_that_is_timed_is_not_tested_on_the_way() -> None:
    size = Size()
    run = config(size, "bf16")
    found = run.stream.batch, run.memory.replay, run.learner.name, run.network.width, run.memory.buffer
    assert found == (32, 8, "er-ace", 64, 5120)
    steps = size.each * size.classes // run.stream.batch
    assert run.stream.tasks == 1
    assert size.warm + size.rounds * size.steps < steps >= bench.LONG
