"""Draw the pictures of these pages.

    python docs/make_pictures.py

It writes docs/pictures: the pictures, and `data.sha256`. Matplotlib is needed (`pip install '.[plot]'`).

Every picture has two parts: `*_data`, whole numbers counted from tapes, the same on every machine; and `draw_*`, which
only draws them. `data.sha256` holds a hash of each picture's numbers, so that a test can tell whether a picture on disk
is the one this script would draw.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from reprise import Memory, Tape
from reprise.audit import measure, theory
from reprise.runs import Run, make_plan
from reprise.streams import label_stream

FOLDER = Path(__file__).resolve().parent / "pictures"
CLASSES, REPLAY, SHOWN, LONG, PASSES = 20, 4, 60, 10_000, 20
SCHEDULES = {
    "uniform": "any stored examples,\nwhatever their class",
    "iid": "a fresh balanced draw\nat every step",
    "deadline:2": "a fresh balanced draw;\nwho is due is served",
    "hybrid:2": "two slots by shuffled pass,\ntwo drawn afresh",
    "rpr": "shuffled passes,\na new order each time",
    "reused:4": "shuffled passes,\neach order used four times",
    "window:0.25": "passes whose order\nchanges a little",
    "fixed": "in order of class id,\nround and round",
    "frozen-pass": "fixed blocks in\nshuffled passes",
    "frozen-iid": "fixed blocks,\none drawn afresh each step",
}
MAPS = ("iid", "rpr", "reused:4", "window:0.25", "fixed", "frozen-pass")
STORAGES = ("reservoir", "brs", "brs-always", "cbrs", "fifo")
STREAM, CAPACITY = "cifar100-lt10", 5120

# Okabe and Ito's colours, which people with any colour vision can tell apart: one meaning each, on every picture.
MEASURED, LAW, BOUND, WAIT, QUIET = "#0072B2", "#000000", "#D55E00", "#E69F00", "#999999"


def planned(spec: str, steps: int) -> Tape:
    """What is replayed from a balanced memory that stands still."""
    run = Run.of(learner=None, classes=CLASSES, steps=steps, replay=REPLAY, retrieval=spec)
    tape = make_plan(run).tape
    assert tape is not None
    return tape


def schedules_data() -> dict[str, Any]:
    """Per schedule: the classes of the first steps, and how many gaps of each length a long run has.

    Classes are numbered in the order in which they first came: then blocks and repeated orders show.
    """
    found = {}
    for spec in SCHEDULES:
        tape = planned(spec, LONG)
        labels = tape.labels[tape.replay]
        came = {label: place for place, label in enumerate(dict.fromkeys(labels.ravel().tolist()))}
        found[spec] = {
            "raster": [[came[label] for label in batch] for batch in labels[:SHOWN, 0].tolist()],
            "gaps": np.bincount(measure(tape).gaps).tolist(),
        }
    return found


def cooccurrence_data() -> dict[str, Any]:
    """Per schedule: how many batches each two classes shared, classes in the order in which they first came."""
    found = {}
    for spec in MAPS:
        tape = planned(spec, PASSES * CLASSES // REPLAY)
        came = list(dict.fromkeys(tape.labels[tape.replay].ravel().tolist()))
        found[spec] = measure(tape).pairs()[np.ix_(came, came)].tolist()
    return found


def storage_data() -> dict[str, Any]:
    """How many examples of each class the stream brings, and how many each storage holds at its end."""
    stream = label_stream(STREAM, seed=0)
    found = {"stream": stream.counts.tolist()}
    for spec in STORAGES:
        memory = Memory(CAPACITY, spec, seed=0)
        for ids in stream:
            memory.store(stream.labels[ids])
        found[spec] = np.bincount(memory.labels, minlength=stream.num_classes).tolist()
    return found


def law(spec: str, classes: int = CLASSES, b: int = REPLAY) -> tuple[np.ndarray | None, int | None]:
    """The probability of each gap, where a formula gives it, and the longest gap, where there is one; b divides C."""
    step = classes // b
    far = np.arange(1, 200)
    if spec in ("iid", "frozen-iid"):
        return np.append(0, theory.geometric_pmf(far, classes, b)), None
    if spec == "uniform":
        p = theory.uniform_inclusion(classes, 50, b)
        return np.append(0, p * (1 - p) ** (far - 1)), None
    if spec in ("rpr", "frozen-pass"):
        return theory.rpr_gap_pmf(classes, b), theory.fixed_set_bound(classes, b)
    if spec == "fixed":
        return np.eye(step + 1)[step], step
    name, _, argument = spec.partition(":")
    if name == "reused":
        share = 1 / int(argument)
        mixed = share * theory.rpr_gap_pmf(classes, b)
        mixed[step] += 1 - share
        return mixed, theory.fixed_set_bound(classes, b)
    if name == "deadline":
        return theory.deadline_gap_pmf(classes, b, argument), theory.deadline_cap(classes, b, argument)
    if name == "hybrid":
        return hybrid_law(classes, b, int(argument)), theory.fixed_set_bound(classes, int(argument))
    return None, theory.window_bounds(classes, b, argument)[1]


def hybrid_law(classes: int, b: int, slots: int) -> np.ndarray:
    """The gap of `hybrid:S`: the visits of a pass with S slots, and in every other step one more with probability q."""
    by_pass = theory.rpr_gap_pmf(classes, slots)
    gap, q = np.arange(len(by_pass) + 1), (b - slots) / (classes - slots)
    # The probability that g steps in a row, beginning anywhere, hold no visit.
    none = (1 - q) ** gap * [by_pass @ np.maximum(gap[:-1] - g, 0) * slots / classes for g in gap]
    longer = -np.diff(none) * classes / b
    return np.append(0, -np.diff(longer))


def draw_schedules(data: dict[str, Any], plt: Any) -> Any:
    """One row per schedule: who is replayed when, and how long the waits are."""
    figure, axes = plt.subplots(
        len(SCHEDULES), 3, figsize=(10, 13.2), width_ratios=(1.55, 4.6, 3.1), layout="constrained"
    )
    for (spec, words), (text, raster, tail) in zip(SCHEDULES.items(), axes, strict=True):
        counts = np.array(data[spec]["gaps"])
        chance, bound = law(spec)
        text.axis("off")
        text.text(0, 0.80, spec, family="monospace", weight="bold", size=11, va="center")
        text.text(0, 0.72, words, size=8.5, va="top")
        text.text(
            0,
            0.04,
            f"longest gap {len(counts) - 1}, " + (f"bound {bound}" if bound else "no bound"),
            size=8.5,
            color=BOUND if bound else QUIET,
        )
        draw_raster(raster, np.array(data[spec]["raster"]))
        draw_tail(tail, counts, chance, bound)
        if spec != list(SCHEDULES)[-1]:
            raster.set_xticklabels([])
            tail.set_xticklabels([])
    axes[0, 1].set_title(f"who is replayed in the first {SHOWN} steps, and in orange the longest gap", size=9.5)
    axes[0, 2].set_title(f"share of gaps of at least g, {LONG:,} steps", size=9.5)
    axes[-1, 1].set_xlabel("step")
    axes[-1, 2].set_xlabel("g, steps")
    axes[2, 2].legend(loc="lower left", frameon=False, fontsize=8.5, handlelength=1.4, borderaxespad=0.1)
    return figure


def draw_raster(ax: Any, raster: np.ndarray) -> None:
    """A mark for every class at every step that replays it."""
    steps = np.repeat(np.arange(len(raster)), raster.shape[1])
    classes = raster.ravel()
    nothing = np.full(len(steps), np.nan)
    # One line with holes, not one mark each: the drawing stays small as an SVG.
    ax.plot(
        np.stack([steps, steps + 1, nothing], 1).ravel(),
        np.repeat(classes, 3),
        color=MEASURED,
        linewidth=2.6,
        solid_capstyle="butt",
    )
    length, label, first = max(
        (int(gap), int(label), int(seen[place]))
        for label in range(CLASSES)
        for seen in [np.unique(steps[classes == label])]
        for place, gap in enumerate(np.diff(seen))
    )
    ax.plot([first + 1, first + length], [label, label], color=WAIT, linewidth=2.6, solid_capstyle="butt")
    ax.set(xlim=(0, len(raster)), ylim=(CLASSES - 0.3, -0.7), yticks=[0, 19], xticks=range(0, len(raster) + 1, 10))
    ax.set_ylabel("class", labelpad=-2)


def draw_tail(ax: Any, counts: np.ndarray, chance: np.ndarray | None, bound: int | None) -> None:
    """The share of gaps of at least g steps, on two log scales: measured, by the law, and the bound."""
    if bound is not None:
        ax.axvline(bound, color=BOUND, linewidth=1.6, label="bound")
    if chance is not None:
        least = np.cumsum(chance[::-1])[::-1]
        reach = np.arange(1, len(chance))
        ax.plot(reach, least[1:], color=LAW, linewidth=1, label="law")
    least = np.cumsum(counts[::-1])[::-1] / counts.sum()
    ax.plot(np.arange(1, len(counts)), least[1:], ".", color=MEASURED, markersize=4.5, label="measured")
    ax.set(xscale="log", yscale="log", xlim=(0.9, 75), ylim=(1.2e-5, 2.2))
    ax.set_yticks([1, 1e-2, 1e-4], ["1", "10⁻²", "10⁻⁴"])
    ax.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    ax.minorticks_off()


def draw_cooccurrence(data: dict[str, Any], plt: Any) -> Any:
    """One map per schedule: the darker, the more batches two classes shared."""
    from matplotlib.colors import LinearSegmentedColormap

    figure, axes = plt.subplots(2, 3, figsize=(8.4, 6.1), layout="constrained")
    shades = LinearSegmentedColormap.from_list("shades", ["white", "#9CC9E3", MEASURED, "#00263D"])
    shades = shades.with_extremes(bad="#E8E8E8")
    for spec, ax in zip(MAPS, axes.flat, strict=True):
        pairs = np.array(data[spec])
        shown = np.where(np.eye(CLASSES, dtype=bool), np.nan, np.sqrt(pairs))
        image = ax.imshow(shown, cmap=shades, vmin=0, vmax=np.sqrt(PASSES))
        met = np.count_nonzero(np.triu(pairs, 1))
        ax.set_title(spec, family="monospace", weight="bold", size=11)
        ax.set_xlabel(f"{met} of {CLASSES * (CLASSES - 1) // 2} pairs met", size=9)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
    marks = [0, 1, 2, 4, 8, 14, 20]
    bar = figure.colorbar(image, ax=axes, shrink=0.6, ticks=np.sqrt(marks))
    bar.ax.set_yticklabels([str(mark) for mark in marks])
    bar.set_label(f"batches shared in {PASSES * CLASSES // REPLAY} steps")
    return figure


def draw_storage(data: dict[str, Any], plt: Any) -> Any:
    """One panel per storage: what it holds of each class, over what the stream brought."""
    figure, axes = plt.subplots(len(STORAGES), 1, figsize=(8.4, 7.6), sharex=True, layout="constrained")
    classes = np.arange(len(data["stream"]))
    for spec, ax in zip(STORAGES, axes, strict=True):
        ax.bar(classes, data["stream"], width=0.9, color="#DDDDDD", label="arrived")
        ax.bar(classes, data[spec], width=0.9, color=MEASURED, label="held at the end")
        held = np.array(data[spec])
        words = f"{np.count_nonzero(held)} classes, {held[held > 0].min()} to {held.max()} examples each"
        ax.set_title(spec, family="monospace", weight="bold", size=11, loc="left")
        ax.set_title(words, size=9, loc="center")
        ax.set(xlim=(-0.6, len(classes) - 0.4), ylim=(0, 520), yticks=[0, 250, 500], ylabel="examples")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=9, borderaxespad=0)
    axes[-1].set_xlabel(f"class, in the order of tasks ({STREAM}, memory of {CAPACITY})")
    axes[-1].set_xticks(range(0, len(classes), 10))
    return figure


PICTURES = {
    "schedules": (schedules_data, draw_schedules, ("png", "svg")),
    "cooccurrence": (cooccurrence_data, draw_cooccurrence, ("png",)),
    "storage": (storage_data, draw_storage, ("png",)),
}


def digest(data: dict[str, Any]) -> str:
    """A hash of what a picture shows."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Draw every picture and note the hash of its numbers."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    plt.rcParams.update(
        {
            "font.size": 8.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": QUIET,
            "axes.linewidth": 0.8,
            "xtick.color": "#333333",
            "ytick.color": "#333333",
            "svg.fonttype": "none",
            "svg.hashsalt": "reprise",
        }
    )
    FOLDER.mkdir(exist_ok=True)
    lines = []
    for name, (collect, draw, endings) in PICTURES.items():
        data = collect()
        figure = draw(data, plt)
        if "svg" in endings:
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        figure.savefig(FOLDER / f"{name}.png", dpi=125, metadata={"Software": None})
        with Image.open(FOLDER / f"{name}.png") as picture:  # few colours are used: a palette makes it a third as large
            small = picture.convert("RGB").quantize(96, dither=Image.Dither.NONE)
        small.save(FOLDER / f"{name}.png", optimize=True)
        plt.close(figure)
        lines.append(f"{digest(data)}  {name}\n")
    (FOLDER / "data.sha256").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
