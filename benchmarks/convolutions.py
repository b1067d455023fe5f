"""What the fleet's own convolutions cost, beside cuDNN's: every distinct one of a ResNet-18, forward and backward.

    python benchmarks/convolutions.py [--runs 8] [--side 32] [--precision bf16] [--tune] [--markdown FILE]

For whoever wants to make them faster: --tune tries other tiles for each kernel and layer, and shows the best three
beside the one in use, which reprise/nets/layers.py chooses. A tile is rows/columns/depth/warps/stages.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from reprise import nets
from reprise.bench.rows import Report, environment
from reprise.bench.show import machine
from reprise.nets import layers
from reprise.nets.layers import Block, Layer
from reprise.nets.resnet import ResNet18
from reprise.nets.rows import Layout, initial_row

SIZES = (32, 8)  # images coming in and replayed
LAUNCHES, REPLAYS, ROUNDS = 10, 3, 5  # launches of a graph, replays of it in a round, rounds
STREAMS = 8  # on which cuDNN's go at once
WAYS = {"_convolve": "forward", "_pull": "input gradient", "_weigh": "weight gradient"}
MARKS = ("<!-- convolutions -->", "<!-- end of convolutions -->")
HEADINGS = "way,layer,times,ours: µs a run,TFLOP/s,cuDNN: µs a run,ours/cuDNN,tile in use,best three".split(",")
NOTE = f"""Ours: {{runs}} runs in a launch; cuDNN: {STREAMS} streams at once, channels last, deterministic, benchmark on.
Ours include BatchNorm's statistics, the ReLU's mask, the residual sum and BatchNorm's sums, cuDNN's do not; parts of our
weight gradients are left for the update to add up. With "+ 1×1" our input gradient is that of the projection, too, and
cuDNN's is the sum of both. n = {ROUNDS} rounds, of {REPLAYS} graphs of {LAUNCHES} launches each; figures are medians.
ResNet-18, width 64, {" + ".join(map(str, SIZES))} images of {{side}}×{{side}}, {{precision}}."""
IMAGES = {  # what to try forward and for input gradients
    "bf16": "128/64/64/4/3 128/64/64/4/4 128/64/64/8/3 128/64/32/4/4 128/128/64/4/3 128/128/64/8/3 256/64/64/8/3 64/64/64/4/4",
    "tf32": "128/64/32/4/3 128/64/32/4/4 64/64/32/4/4 128/128/32/8/3",
    "fp32": "64/64/16/4/2 64/64/32/4/2 128/64/16/8/2 128/64/32/8/3",
}
WEIGHTS = {
    "bf16": "64/64/32/4/4 64/64/64/4/2 64/64/64/4/3 128/64/32/8/4 128/64/64/4/2 128/64/64/8/3 64/128/64/4/2 64/128/64/8/3",
    "tf32": "64/64/32/4/2 64/64/32/4/3 64/64/64/4/2 128/64/32/4/3",
    "fp32": "64/64/16/8/2 64/64/16/4/2 64/64/32/4/2 64/64/32/8/2",
}
Job = tuple[str, tuple[Layer, ...]]  # a way, and what is computed at once: a convolution, or one and the 1×1 beside it


class Call(NamedTuple):
    """A method of a stack as a step calls it, and how often a step calls it so."""

    method: str
    arguments: tuple[Any, ...]
    times: int

    def on(self, stack: Any, many: int = 1) -> None:
        for _ in range(many):
            getattr(stack, self.method)(*self.arguments)


def jobs_of(net: ResNet18, side: int) -> Counter[Job]:
    """The distinct convolutions of a step, each way, and how often each occurs; images need no gradient."""
    stem = layers.layer_of(net, "conv1", "bn1", side, side)
    blocks = list(layers.blocks_of(net, stem))
    each = [(stem,), *((layer,) for block in blocks for layer in block if layer is not None)]
    pulled = [pair for one in blocks for pair in ((one.first, one.around) if one.around else (one.first,), (one.second,))]
    ways = zip(WAYS.values(), (each, pulled, each), strict=True)
    return Counter((way, nameless(job)) for way, jobs in ways for job in jobs)


def nameless(job: Sequence[Layer]) -> tuple[Layer, ...]:
    return tuple(replace(layer, conv="", norm="") for layer in job)


def flops(job: Job) -> int:
    return sum(2 * sum(SIZES) * one.p * one.q * one.k * one.c * one.side**2 for one in job[1])


def make_stack(net: ResNet18, runs: int, side: int, precision: str, device: str = "cuda") -> Any:
    from reprise.nets.stack import Stack  # needs Triton

    layout, rows = Layout.of(net), initial_row(net).to(device).repeat(runs, 1)
    copies = rows[:, : layout.copied].to(torch.bfloat16) if precision == "bf16" else None
    counts = torch.tensor([SIZES] * runs, dtype=torch.int32, device=device)
    stack = Stack(net, layout, rows, copies, counts, SIZES, (side, side), precision)
    stack.turn()
    stack.aside = None  # one kernel at a time
    return stack


def calls_of(stack: Any) -> dict[Job, list[Call]]:
    """What a step calls, by job: the same convolution may come with a residual sum and without."""
    found: dict[Job, dict[frozenset[str], Call]] = defaultdict(dict)

    def noted(method: str, original: Callable[..., Any], *arguments: Any) -> Any:
        bound = signature(original).bind(*arguments).arguments
        given = {name: one for name, one in bound.items() if one is not None}
        at_once = [given[name].layer for name in ("passed", "around") if name in given] or [given["layer"]]
        calls, kind = found[WAYS[method], nameless(at_once)], frozenset(given)
        calls[kind] = Call(method, arguments, calls[kind].times + 1 if kind in calls else 1)
        return original(*arguments)

    with ExitStack() as patched:
        for method in WAYS:
            patched.enter_context(patch.object(stack, method, partial(noted, method, getattr(stack, method))))
        like = stack.rows if stack.half is None else stack.half
        features = stack.forward(like.new_empty(stack.runs, stack.images, stack.stem.h, stack.stem.wd, 3).normal_())
        stack.backward(torch.randn_like(features))
    return {job: list(calls.values()) for job, calls in found.items()}


def timed(work: Callable[[], None]) -> float:
    """Microseconds of one of the launches that `work` makes."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    took = []
    for _ in range(ROUNDS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()  # keeps the device busy until the others have been asked for
        start.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        took.append(1000 * start.elapsed_time(end) / (REPLAYS * LAUNCHES))
    return median(took[1:])  # the first warms up


def ours(stack: Any, calls: Sequence[Call]) -> float:
    """Microseconds a run, on average over the calls of a job."""
    whole = sum(call.times * timed(partial(call.on, stack, LAUNCHES)) for call in calls)
    return whole / sum(call.times for call in calls) / stack.runs


def cudnn(way: str, layer: Layer, precision: str) -> float:
    """Microseconds a run by cuDNN, every run on a stream of its own."""
    images, side, dtype = sum(SIZES), layer.side, torch.bfloat16 if precision == "bf16" else torch.float32
    shapes = (images, layer.k, layer.p, layer.q), (images, layer.c, layer.h, layer.wd), (layer.k, layer.c, side, side)
    geometry = [layer.stride] * 2, [side // 2] * 2, [1, 1], False, [0, 0], 1
    wanted = [way == "input gradient", way == "weight gradient", False]

    def lane() -> tuple[torch.cuda.Stream, list[torch.Tensor]]:
        made = (torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)
        return torch.cuda.Stream(), [one.to(memory_format=torch.channels_last) for one in made]

    def work() -> None:
        main = torch.cuda.current_stream()
        for stream, (dy, x, w) in lanes:
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                for _ in range(LAUNCHES):
                    if way == "forward":
                        torch.convolution(x, w, None, *geometry)
                    else:
                        torch.ops.aten.convolution_backward(dy, x, w, None, *geometry, wanted)
        for stream, _ in lanes:
            main.wait_stream(stream)

    lanes = [lane() for _ in range(STREAMS)]
    return timed(work) / STREAMS


def tile_of(stack: Any, call: Call) -> Block:
    """The tile that a call comes to, no larger than its layer; nothing is launched."""
    with patch("reprise.nets.stack.launch") as launched:
        call.on(stack)
    return Block(*(launched.call_args_list[0].kwargs[name] for name in Block._fields))


def tune(calls: Mapping[Job, list[Call]], make: Callable[[], Any], precision: str, tried: Mapping[Job, dict]) -> None:
    """Time every job with other tiles as well: first all are compiled, side by side."""
