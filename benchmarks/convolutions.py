"""What the fleet's own convolutions cost, beside cuDNN's: every distinct one of a ResNet-18, forward and backward.

python benchmarks/convolutions.py [--runs 8] [--side 32] [--precision bf16] [--tune] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import torch

from reprise import nets
from reprise.bench.results import Report, environment
from reprise.bench.show import machine
from reprise.fleet.engine import layers
from reprise.fleet.engine.flat_state import Layout, initial_row
from reprise.fleet.engine.layers import Block, Layer

SIZES = (32, 8)  # images coming in and replayed
STREAMS, LAUNCHES = 8, 10  # on which cuDNN's go at once, and how many on each before they meet
WAYS = {"_convolve": "forward", "_conv_input_grad": "input gradient", "_conv_weight_grad": "weight gradient"}
NOTE = f"""Medians of n = 10 replays of a graph of many launches, µs a run; ResNet-18 of width 64, batches of {SIZES},
{{side}}×{{side}}, {{precision}}. Ours: {{runs}} runs in a launch, with BatchNorm's statistics and sums, ReLU's mask and
the residual sum, which cuDNN's lack; weight gradients in parts, not yet added up. cuDNN: {STREAMS} streams at once,
channels last, deterministic, benchmark on. "+ 1×1": with the projection's. Tile: rows/columns/depth/warps/stages."""
TILES = (  # to try in bf16, forward and for input gradients, then for weights; otherwise half as deep
    [(128, 64, 64, 4, 3), (128, 64, 64, 4, 4), (128, 64, 64, 8, 3), (128, 64, 32, 4, 4), (128, 128, 64, 4, 3),
     (128, 128, 64, 8, 3), (256, 64, 64, 8, 3), (64, 64, 64, 4, 2), (64, 64, 64, 4, 4)],
    [(64, 64, 32, 4, 4), (64, 64, 64, 4, 2), (64, 64, 64, 4, 3), (64, 64, 32, 8, 2), (128, 64, 32, 8, 4),
     (128, 64, 64, 4, 2), (128, 64, 64, 8, 3), (64, 128, 64, 4, 2), (64, 128, 64, 8, 3)],
)  # fmt: skip
Job = tuple[str, tuple[Layer, ...]]  # a way, and what is computed at once: a convolution, or one and the 1×1 beside it


def jobs_of(net: Any, side: int) -> Counter[Job]:
    """The distinct convolutions of a step, each way, and how often each occurs; images need no gradient."""
    stem = layers.layer_of(net, "conv1", "bn1", side, side)
    blocks = list(layers.blocks_of(net, stem))
    each = [(stem,), *((layer,) for block in blocks for layer in block if layer is not None)]
    pulled = [one for first, second, around in blocks for one in ((first, around), (second,))]
    ways = zip(WAYS.values(), (each, pulled, each), strict=True)
    return Counter((way, nameless(*job)) for way, jobs in ways for job in jobs)


def nameless(*job: Layer | None) -> tuple[Layer, ...]:
    return tuple(replace(layer, conv="", norm="") for layer in job if layer is not None)


def flops(job: Job) -> int:
    return sum(2 * sum(SIZES) * one.p * one.q * one.k * one.c * one.side**2 for one in job[1])


def make_stack(net: Any, runs: int, side: int, precision: str, device: str = "cuda") -> Any:
    from reprise.fleet.engine.stack import Stack  # needs Triton

    layout, rows = Layout.of(net), initial_row(net).to(device).repeat(runs, 1)
    copies = rows[:, : layout.copied].to(torch.bfloat16) if precision == "bf16" else None
    counts = torch.tensor([SIZES] * runs, dtype=torch.int32, device=device)
    stack = Stack(net, layout, rows, copies, counts, SIZES, (side, side), precision)
    stack.turn()
    stack.aside = None  # one kernel at a time
    return stack


def calls_of(stack: Any) -> dict[Job, list[tuple[str, tuple[Any, ...]]]]:
    """What a step calls, by job: methods of the stack, and their arguments."""
    images = torch.randn(stack.runs, stack.images, stack.stem.h, stack.stem.wd, 3, device=stack.rows.device)
    dtype, found = (stack.rows if stack.half is None else stack.half).dtype, defaultdict(list)
    spies = {method: Mock(wraps=getattr(stack, method)) for method in WAYS}
    with patch.multiple(stack, **spies):
        stack.backward(torch.randn_like(stack.forward(images.to(dtype))))
    for method, spy in spies.items():
        for first, *rest in (call.args for call in spy.call_args_list):
            around = rest[4].layer if len(rest) > 4 and rest[4] is not None else None
            found[WAYS[method], nameless(getattr(first, "layer", first), around)].append((method, (first, *rest)))
    return found


def timed(work: Callable[[], object]) -> float:
    """Microseconds of some work, captured many times over."""
    from triton.testing import do_bench_cudagraph

    torch.cuda.synchronize()  # it is timed on another stream
    return 1000 * do_bench_cudagraph(work, return_mode="median")


def ours(make: Callable[[], Any], precision: str, tune: bool) -> dict[Job, dict[Block, float]]:
    """Microseconds a run of every job by tile, the one in use first."""
    from triton.runtime.errors import TritonError

    from reprise.fleet.engine.launch import rehearsal

    names, depth = ("FORWARD", "BACKWARD", "SMALL", "WEIGHTS"), 1 if precision == "bf16" else 2
    choices, calls, found = [[getattr(layers, name) for name in names]], {}, defaultdict(dict)
    for images, weights in zip(*TILES, strict=True) if tune else ():
        blocks = [Block(*tile)._replace(bk=tile[2] // depth) for tile in (images, images, images, weights)]
        choices.append([{precision: block} for block in blocks])
    for choice in choices:
        with patch.multiple("reprise.fleet.engine.stack", **dict(zip(names, choice, strict=True))):
            stack = make()  # weights' gradients lie where the tiles say
            with rehearsal():  # kernels are compiled side by side
                calls_of(stack)
            calls = calls or calls_of(stack)
            works = {job: [partial(getattr(stack, name), *given) for name, given in calls[job]] for job in calls}
            for job, each in works.items():
                with patch(
                    "reprise.fleet.engine.stack.launch"
                ) as launch:  # only to see the tile, no larger than the layer
                    each[0]()
                tile = Block(*(launch.call_args_list[0].kwargs[name] for name in Block._fields))
                try:
                    if tile not in found[job]:
                        found[job][tile] = sum(map(timed, each)) / (len(each) * stack.runs)
                except TritonError as error:  # too large for this device
                    print(f"{job[0]}, {tile}: {error}", file=sys.stderr)
    return found


def cudnn(way: str, layer: Layer, precision: str) -> float:
    """Microseconds a run by cuDNN, every run on a stream of its own."""
    images, side, dtype = sum(SIZES), layer.side, torch.bfloat16 if precision == "bf16" else torch.float32
    shapes = (images, layer.k, layer.p, layer.q), (images, layer.c, layer.h, layer.wd), (layer.k, layer.c, side, side)
    empty = partial(torch.empty, device="cuda", dtype=dtype, memory_format=torch.channels_last)
    wanted = [way == "input gradient", way == "weight gradient", False]
    backward = partial(torch.ops.aten.convolution_backward, output_mask=wanted)
    operation, given = (torch.convolution, shapes[1:]) if way == "forward" else (backward, shapes)
    lanes = [(torch.cuda.Stream(), [empty(shape).normal_() for shape in given]) for _ in range(STREAMS)]
    geometry = [layer.stride] * 2, [side // 2] * 2, [1, 1], False, [0, 0], 1

    def work() -> None:
        main = torch.cuda.current_stream()
        for stream, tensors in lanes:
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                for _ in range(LAUNCHES):
                    operation(*tensors, None, *geometry)
        for stream, _ in lanes:
            main.wait_stream(stream)

    return timed(work) / (STREAMS * LAUNCHES)


def table(jobs: Counter[Job], mine: dict[Job, dict[Block, float]], theirs: dict[Job, float]) -> str:
    """Every job, and sums over a network, where each counts as often as it occurs."""
    used, work = {job: next(iter(mine[job].values())) for job in jobs}, {job: flops(job) for job in jobs}

    def figures(some: dict[Job, int]) -> list[str]:
        us, peer, flop = (sum(times * of[job] for job, times in some.items()) for of in (used, theirs, work))
        return [str(sum(some.values())), f"{us:.2f}", f"{flop / us / 1e6:.1f}", f"{peer:.2f}", f"{us / peer:.2f}"]

    rows = [["way", "layer", "times", "ours, µs", "TFLOP/s", "cuDNN, µs", "ratio", "tile", "best three"], ["---"] * 9]
    for job, times in jobs.items():
        (way, (layer, *around)), tiles = job, ["/".join(map(str, tile)) for tile in mine[job]]
        what = f"{layer.c}→{layer.k} {layer.side}×{layer.side}/{layer.stride}{' + 1×1' * len(around)} at {layer.h}²"
        best = [f"{tile} {us:.2f}" for us, tile in sorted(zip(mine[job].values(), tiles, strict=True))]
        rows.append([way, what, str(times), *figures({job: 1})[1:], tiles[0], ", ".join(best[:3] if best[1:] else [])])
    for way in (*WAYS.values(), ""):
        rows.append([way or "all", "sum", *figures({job: jobs[job] for job in jobs if way in job[0]}), "", ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8, help="how many a launch of ours computes")
    parser.add_argument("--side", type=int, default=32, help="of the images")
    parser.add_argument("--precision", choices=("bf16", "tf32", "fp32"), default="bf16")
    parser.add_argument("--tune", action="store_true", help="try tiles other than fleet/engine/layers.py chooses")
    parser.add_argument("--markdown", metavar="FILE", help="write the table to a file, too")
    asked = parser.parse_args()
    if asked.runs < 1 or asked.side < 8:
        parser.error(f"--runs must be 1 or more and --side 8 or more, got {asked.runs} and {asked.side}")
    if not torch.cuda.is_available():
        print("This benchmark needs a CUDA device, and torch finds none here.", file=sys.stderr)
        return 2
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = asked.precision != "fp32"
    net = nets.build(classes=100)
    jobs, make = jobs_of(net, asked.side), partial(make_stack, net, asked.runs, asked.side, asked.precision)
    mine = ours(make, asked.precision, asked.tune)
    theirs = {job: sum(cudnn(job[0], layer, asked.precision) for layer in job[1]) for job in jobs}
    facts = environment(torch.device("cuda"))
    facts["versions"]["triton"] = version("triton")
    text = f"{table(jobs, mine, theirs)}\n\n{NOTE.format(**vars(asked))}\n\n{machine(Report(facts))}\n"
    print(text, end="")
    if asked.markdown:
        Path(asked.markdown).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
