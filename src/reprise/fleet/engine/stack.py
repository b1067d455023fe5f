"""Many ResNets of one shape, each with weights and images of its own, computed together on a GPU.

A kernel does the same layer of all networks at once, so that a step has few launches, and each of them fills the
device. The convolutions see all batches of a run as one; BatchNorm sees each by itself, as in separate passes. What
comes out, and the gradients, are those of the networks themselves, to rounding.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from reprise.fleet.engine import convolve
from reprise.fleet.engine import norm_kernels as kernels
from reprise.fleet.engine.flat_state import Layout, aligned
from reprise.fleet.engine.launch import launch
from reprise.fleet.engine.layers import (
    BACKWARD,
    FEW,
    FORWARD,
    SMALL,
    WEIGHTS,
    Block,
    Layer,
    Tiles,
    blocks_of,
    layer_of,
    tile_side,
)
from reprise.nets import Network

PARTS = 48  # programs of a weight gradient for each run, at least, where its tiles alone are fewer
ROWS = 256  # positions that a program of BatchNorm goes through
CHUNK = 64  # tiles whose statistics a program reads at a time


@dataclass(frozen=True)
class Passed:
    """What a layer leaves for the way back."""

    layer: Layer
    x: Tensor  # what came in
    y: Tensor  # what the convolution made of it
    mean: Tensor  # of each batch and channel of y
    scale: Tensor  # 1 / deviation


class Slope(NamedTuple):
    """A gradient behind a ReLU, and of each of its tiles the sums that BatchNorm needs."""

    dz: Tensor
    sums: Tensor
    products: tuple[Tensor, Tensor]  # with what was normalised; on the way around, too
    tiles: Tiles


class Stack:
    """The features of many stackable networks, and the gradients of all their weights but the heads'.

    `rows` has the state of one network a row, in the order of `layout`; convolutions compute with `copies` of their
    weights, where there are any. `counts` says how many images of each batch of each run are real. Gradients of all
    parameters lie in `gradient`: `parts` says where, and of how many parts each is the sum.
    """

    def __init__(
        self, net: Network, layout: Layout, rows: Tensor, copies: Tensor | None, counts: Tensor,
        sizes: tuple[int, ...], image: tuple[int, int], precision: str,
    ) -> None:  # fmt: skip
        self.layout, self.rows = layout, rows
        self.runs = len(rows)
        self.precision = precision
        self.half = copies
        self.turned = None if precision == "bf16" else torch.zeros_like(rows[:, : layout.copied])
        self.stem = layer_of(net, "conv1", "bn1", *image)
        self.blocks = list(blocks_of(net, self.stem))
        self.aside = torch.cuda.Stream(rows.device) if rows.is_cuda else None
        self.held: list[Tensor] = []
        self.tracks = True  # running statistics
        self._fit(sizes, counts)

    def _fit(self, sizes: tuple[int, ...], counts: Tensor) -> None:
        self.sizes, self.images, self.counts = sizes, sum(sizes), counts
        self.parts, length = self._parts()
        self.gradient = torch.zeros(self.runs, length, device=self.rows.device)

    def beside(self, sizes: tuple[int, ...], counts: Tensor) -> Stack:
        """The same networks, weights and all, for other batches, which no running statistics track."""
        other = copy.copy(self)
        other.held = []
        other.tracks = False
        other._fit(sizes, counts)
        return other

    @property
    def layers(self) -> list[Layer]:
        inner = [layer for block in self.blocks for layer in block if layer is not None]
        return [self.stem, *inner]

    def _parts(self) -> tuple[dict[str, tuple[int, int]], int]:
        """For each parameter, where its gradient begins and how many parts it has; and how long all of them are."""
        many = {layer.conv: self._split(layer)[0] for layer in self.layers}
        parts, end = {}, 0
        for name in self.layout.parameters:
            count = many.get(name.removesuffix(".weight"), 1)
            parts[name] = end, count
            end += count * aligned(self.layout.spans[name].size)
        return parts, end

    def _split(self, layer: Layer) -> tuple[int, int]:
        """Into how many parts a weight gradient is cut, and how many positions each goes over."""
        block, positions = self._weight_block(layer), self.images * layer.p * layer.q
        programs = -(-layer.k // block.bm) * -(-layer.c // block.bn) * layer.side
        deep = -(-positions // max(PARTS // programs, 1))
        rows = -(-deep // block.bk) * block.bk
        return -(-positions // rows), rows

    def _weight_block(self, layer: Layer) -> Block:
        block = WEIGHTS[self.precision]
        return block._replace(bm=min(block.bm, tile_side(layer.k)), bn=min(block.bn, tile_side(layer.c)))

    def turn(self) -> None:
        """Copy weights as some kernels read them, outputs last; to be called whenever weights have changed."""
        if self.turned is None:
            return
        for layer in self.layers:
            start, size = self.layout.spans[f"{layer.conv}.weight"]
            part = self.rows[:, start : start + size].view(self.runs, layer.k, -1)
            self.turned[:, start : start + size].view(self.runs, -1, layer.k).copy_(part.transpose(1, 2))

    # The way forward.

    def forward(self, x: Tensor) -> Tensor:
        """The features of images, runs × images × height × width × 3."""
        self.stem_passed = self._convolve(self.stem, x)
        y = self._normalise(self.stem_passed)
        self.passed: list[tuple[Passed, Passed, Passed | None, Tensor]] = []
        for block in self.blocks:
            first = self._convolve(block.first, y)
            second = self._convolve(block.second, self._normalise(first))
            around = None if block.around is None else self._convolve(block.around, y)
            y = self._normalise(second, y, around)
            self.passed.append((first, second, around, y))
        return y.mean((2, 3))

    def _convolve(self, layer: Layer, x: Tensor) -> Passed:
        block = self._block(FORWARD, layer).within(layer.k, layer.c)
        if layer.c % block.bk:  # taps and inputs go in one row
            block = block._replace(bk=32)
        tiles = Tiles.of(self.sizes, layer.p * layer.q, block.bm)
        y = x.new_empty(self.runs, self.images, layer.p, layer.q, layer.k)
        means, squares = self._floats(2, self.runs, tiles.all, layer.k)
        mean, scale = self._floats(2, self.runs, len(self.sizes), layer.k)
        weight, length, (wk, wt, wc) = self._weight(layer, turned=self.precision == "fp32")
        launch(
            convolve.convolve, (tiles.all * -(-layer.k // block.bn), self.runs),
            x, weight, y, means, squares, self.counts, length, **layer.shape, side=layer.side, wk=wk, wt=wt, wc=wc,
            **self._batches, **tiles._asdict(), **block._asdict(), precision=self._products,
        )  # fmt: skip
        running = [self._own(f"{layer.norm}.running_{what}") for what in ("mean", "var")]
        launch(
            kernels.bn_stats, (-(-layer.k // 16), self.runs),
            means, squares, self.counts, mean, scale, *running, self.layout.length, layer.p * layer.q, c=layer.k,
            segments=len(self.sizes), **tiles._asdict(), size=block.bm, chunk=CHUNK, bc=16, track=self.tracks,
        )  # fmt: skip
        return Passed(layer, x, y, mean, scale)

    def _normalise(self, passed: Passed, x: Tensor | None = None, around: Passed | None = None) -> Tensor:
        y = torch.empty_like(passed.y)
        other = around or passed
        grid, sizes = self._rowwise(passed.layer)
        launch(
            kernels.normalise, grid,
            *self._norm(passed), self._own(f"{passed.layer.norm}.bias"),
            x if x is not None and around is None else other.y, *self._norm(other)[1:],
            self._own(f"{other.layer.norm}.bias"), y, self.counts, self.layout.length, **sizes,
            add=x is not None and around is None, two=around is not None,
        )  # fmt: skip
        return y

    # The way back.

    def backward(self, dfeatures: Tensor) -> None:
        """Fill `gradient`, all but the heads' part, from what the heads give for the features."""
        slope = self._spread(dfeatures)
        for number in range(len(self.passed) - 1, -1, -1):
            first, second, around, _ = self.passed[number]
            dy, around_dy = self._input_gradient(slope, second, around)
            self._conv_weight_grad(second, dy)
            if around is not None:
                self._conv_weight_grad(around, around_dy)
            inner_dy, _ = self._input_gradient(self._conv_input_grad(second, dy, first), first)
            self._conv_weight_grad(first, inner_dy)
            below = (self.stem_passed, None) if number == 0 else self.passed[number - 1][1:3]
            slope = self._conv_input_grad(first, inner_dy, *below, slope.dz, around, around_dy)
        dy, _ = self._input_gradient(slope, self.stem_passed)
        self._conv_weight_grad(self.stem_passed, dy)
        if self.aside is not None:
            torch.cuda.current_stream().wait_stream(self.aside)
        self.held.clear()
        del self.passed, self.stem_passed  # or they would lie beside those of the next step

    def _spread(self, dfeatures: Tensor) -> Slope:
        _, last, around, y = self.passed[-1]
        assert around is None  # so that one norm alone made y
        layer, bm, bc = last.layer, 64, min(64, tile_side(last.layer.k))
        tiles = Tiles.of(self.sizes, layer.p * layer.q, bm)
        dz = torch.empty_like(y)
        sums, products = self._floats(2, self.runs, tiles.all, layer.k)
        launch(
            kernels.spread, (tiles.all, -(-layer.k // bc), self.runs),
            dfeatures, y, last.y, last.mean, last.scale, dz, sums, products, self.counts, hw=layer.p * layer.q,
            c=layer.k, **self._batches, **tiles._asdict(), bm=bm, bc=bc,
        )  # fmt: skip
        return Slope(dz, sums, (products, products), tiles)

    def _conv_input_grad(
        self, passed: Passed, dy: Tensor, below: Passed, other: Passed | None = None, dz: Tensor | None = None,
        around: Passed | None = None, around_dy: Tensor | None = None,
    ) -> Slope:  # fmt: skip
        """Through a convolution, and the ReLU before it, to the sum of the norms `below` and `other`.

        What goes around is added: `dz` as it is, or what `around_dy` gives through the convolution `around`.
        """
        layer, out = passed.layer, passed.x
        block = self._block(BACKWARD, layer).within(layer.c, layer.k)
        tiles = Tiles.of(self.sizes, layer.p * layer.q, block.bm, layer.stride**2)
        below_dz = torch.empty_like(out)
        sums, first, second = self._floats(3, self.runs, tiles.all, layer.c)
        turned = self.precision == "tf32"
        weight, length, (wk, wt, wc) = self._weight(layer, turned)
        around_weight, _, (around_wk, _, around_wc) = self._weight(around.layer if around else layer, turned)
        two = other or below
        launch(
            convolve.conv_input_grad, (tiles.all * -(-layer.c // block.bn), self.runs),
            dy, weight, below_dz, out if dz is None else dz, dy if around is None else around_dy, around_weight, out,
            below.y, below.mean, below.scale, two.y, two.mean, two.scale, sums, first, second, self.counts, length,
            **layer.shape, wk=wk, wt=wt, wc=wc, around_wk=around_wk, around_wc=around_wc, **self._batches,
            **tiles._asdict(), **block._asdict(), precision=self._products, add=dz is not None and around is None,
            projected=around is not None, two=other is not None,
        )  # fmt: skip
        return Slope(below_dz, sums, (first, second), tiles)

    def _input_gradient(self, slope: Slope, passed: Passed, around: Passed | None = None) -> tuple[Tensor, Tensor]:
        """What dz gives for the output of a convolution, and for that of the one on the way around."""
        layer = passed.layer
        level, mean, other = self._floats(3, self.runs, len(self.sizes), layer.k)
        for one, products, into in ((passed, slope.products[0], mean), (around, slope.products[1], other)):
            if one is not None:
                launch(
                    kernels.bn_weight_grad, (-(-layer.k // 16), self.runs),
                    slope.sums, products, self.counts, level, into, self._gradient_of(f"{one.layer.norm}.weight"),
                    self._gradient_of(f"{one.layer.norm}.bias"), self.gradient.shape[1], layer.p * layer.q, c=layer.k,
                    segments=len(self.sizes), **slope.tiles._asdict(), chunk=CHUNK, bc=16,
                )  # fmt: skip
        dx = torch.empty_like(passed.y)
        around_dx = dx if around is None else torch.empty_like(dx)
        grid, sizes = self._rowwise(layer)
        launch(
            kernels.input_gradient, grid,
            slope.dz, *self._norm(passed), level, mean, dx, *self._norm(around or passed), other, around_dx,
            self.counts, self.layout.length, **sizes, two=around is not None,
        )  # fmt: skip
        return dx, around_dx

    def _conv_weight_grad(self, passed: Passed, dy: Tensor) -> None:
        """The gradient of a convolution's weights; nothing waits for it but the end."""
        layer = passed.layer
        block = self._weight_block(layer)
        parts, rows = self._split(layer)
        programs = -(-layer.k // block.bm) * -(-layer.c // block.bn) * layer.side * parts
        if self.aside is not None:
            self.aside.wait_stream(torch.cuda.current_stream())
            self.held += [dy, passed.x]  # until the other stream is done with them
        with torch.cuda.stream(self.aside):
            launch(
                convolve.conv_weight_grad, (programs, self.runs),
                dy, passed.x, self._gradient_of(f"{layer.conv}.weight"), self.counts, self.gradient.shape[1],
                aligned(layer.k * layer.c * layer.side**2), **layer.shape, side=layer.side, images=self.images,
                segments=len(self.sizes), rows=rows, **block._asdict(), precision=self._products,
            )  # fmt: skip

    # What the kernels are told. Where a kernel does not look at an argument, another tensor of its kind stands in.

    @property
    def _products(self) -> str:
        return "ieee" if self.precision == "fp32" else "tf32"

    @property
    def _batches(self) -> dict[str, int]:
        n0, n1, n2 = (*self.sizes, 0, 0)[:3]
        return {"images": self.images, "segments": len(self.sizes), "n0": n0, "n1": n1, "n2": n2}

    def _rowwise(self, layer: Layer) -> tuple[tuple[int, int, int], dict[str, int]]:
        """Grid and sizes for kernels that go over positions × channels, `ROWS` positions a program."""
        tiles, bc = Tiles.of(self.sizes, layer.p * layer.q, ROWS), min(64, tile_side(layer.k))
        cut = {"t0": tiles.t0, "t1": tiles.t1, "size": ROWS, "bm": 64, "bc": bc}
        sizes = {"hw": layer.p * layer.q, "c": layer.k, **self._batches, **cut}
        return (tiles.all, -(-layer.k // bc), self.runs), sizes

    def _block(self, blocks: dict[str, Block], layer: Layer) -> Block:
        few = self.images * layer.p * layer.q <= FEW
        return (SMALL if few and self.precision in SMALL else blocks)[self.precision]

    def _floats(self, *shape: int) -> Tensor:
        return torch.empty(shape, device=self.rows.device)

    def _own(self, name: str) -> Tensor:
        """A tensor of the state: that of the first run, from where the others' are one row apart."""
        return self.rows[0, self.layout.spans[name].start :]

    def _gradient_of(self, name: str) -> Tensor:
        return self.gradient[0, self.parts[name][0] :]

    def _norm(self, passed: Passed) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return passed.y, passed.mean, passed.scale, self._own(f"{passed.layer.norm}.weight")

    def _weight(self, layer: Layer, turned: bool) -> tuple[Tensor, int, tuple[int, int, int]]:
        """A convolution's weights, numbers from run to run, and from output to output, tap to tap, input to input."""
        start = self.layout.spans[f"{layer.conv}.weight"].start
        taps = layer.side**2
        if turned and self.turned is not None:
            return self.turned[0, start:], self.turned.shape[1], (1, layer.c * layer.k, layer.k)
        source = self.rows if self.half is None else self.half
        return source[0, start:], source.shape[1], (taps * layer.c, layer.c, 1)
