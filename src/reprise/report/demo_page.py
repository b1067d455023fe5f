"""The demo's page: self-contained, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from reprise.report.demo_figures import PICTURES, picture_svg
from reprise.report.demo_result import FIRST, READOUTS, Outcome, percent, points
from reprise.report.page import inline_svg, stylesheet

MEANING = {
    "iid": "independent draws: at every step the classes to replay are drawn anew, every stored class with "
    "the same chance. How long a class waits is left to chance, and no bound is proved.",
    "rpr": "randomised-pass replay: the stored classes come back in a shuffled order, each once, and then in a new "
    "one. How long a class can wait is bounded by a proof.",
}
"""What a schedule does, for someone who has never heard its name."""
CHOICE = (
    "This is one small setting, chosen so that every run learns within half a minute. Others were tried before it, "
    "with augmented images, a learning rate of 0.1 or two replayed images a step; some of their runs ended close to "
    "chance. So it is a demonstration, and no measure of how large the difference is elsewhere: the interval is about "
    "other seeds of this setting, not about other settings."
)
"""How the setting was chosen, and how far the result reaches; the page on the demo says the same."""


def page(outcome: Outcome, command: str, version: str, seconds: float | None = None) -> str:
    """The page as text: what it means, the pictures, the figures of every pair, and how it was made.

    `seconds` is the time that the demo took, if it was made at one go.
    """
    found = outcome.contrast()
    verdict = "the interval excludes 0" if found.clear else "the interval includes 0"
    interval = f"{found.confidence:.0%} interval {points(found.low)} to {points(found.high)}"
    meaning = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in outcome.sentences)
    names = " against ".join(f"<b>{escape(one.retrieval)}</b>" for one in (outcome.arm, outcome.base))
    took = "" if seconds is None else f" in {seconds:,.0f} seconds"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Replay demo: {escape(outcome.arm.retrieval)} against {escape(outcome.base.retrieval)}</title>
<style>{stylesheet()}{_MORE}</style>
</head>
<body>
<main>
<header>
<h1>Does it matter when a stored class returns?</h1>
<p class="sub">{escape(outcome.caption)}</p>
<p>A network learns from a stream of images, each seen once. It keeps some of them in a memory, and at every step a few
come back from there, so that it does not forget. A schedule decides which classes come back. Two are compared:</p>
<dl>
{_schedules(outcome)}
</dl>
<p>{names}: each pair of runs sees the same images in the same order, starts from the same weights and holds the same
images in memory at every step. They differ in one thing alone, when stored classes come back.</p>
</header>
<section>
<h2>What it means</h2>
<p class="big"><b>{points(found.mean)}</b> points of accuracy <span>{interval}: {verdict};
{found.positive} of {found.n} pairs above 0</span></p>
{meaning}
<p>{escape(CHOICE)}</p>
</section>
<section>
<h2>Pictures</h2>
<div class="cards">
{_cards(outcome)}
</div>
<p class="key"><b>Waits:</b> the share of gaps of g steps or more, on a log scale, over all seeds; the dashed line is
the bound proved for {escape(outcome.arm.retrieval)} once all classes are stored{_ring(outcome)}.
<b>Difference:</b> that in final accuracy for each seed, and their mean with its interval.
<b>So far:</b> accuracy on the classes seen so far after each task, the task not told; thin lines are seeds.</p>
</section>
<section>
<h2>Figures</h2>
{_table(outcome)}
<p class="key">Final accuracy, in per cent: the mean over tasks of the share of test images named, every class allowed.
The live network is what training leaves behind; the averaged network is a moving average of it, and is what pictures
and sentences above are about. Intervals are Student's, for the mean of pairs; p is two-sided. {_material(outcome)}.</p>
</section>
<footer>
<p>Made by Reprise {escape(version)}{took} with</p>
<pre>{escape(command)}</pre>
<p>{escape(_made_by(outcome))}</p>
</footer>
</main>
</body>
</html>
"""


def _schedules(outcome: Outcome) -> str:
    return "\n".join(
        f"<dt>{name}</dt><dd>{MEANING[name]}</dd>"
        for name in (outcome.base.retrieval, outcome.arm.retrieval)
        if name in MEANING
    )


def _made_by(outcome: Outcome) -> str:
    """The versions and the kind of machine behind the runs: each once, should runs of several be compared."""
    records = (*outcome.base.records.values(), *outcome.arm.records.values())
    return f"Trained by {' and by '.join(dict.fromkeys(_versions(record['provenance']) for record in records))}."


def _versions(made: Mapping[str, Any]) -> str:
    versions = "Reprise {reprise}, Python {python}, NumPy {numpy}, torch {torch}".format(**made)
    threads = made.get("threads")  # of each run
    count = None if threads is None else "1 thread" if threads == 1 else f"{threads} threads"
    return (
        f"{versions} on {', '.join(filter(None, (made['machine'], made['device'], made.get('instructions'), count)))}"
    )


def _ring(outcome: Outcome) -> str:
    rings = any(arm.longest > len(arm.tail) for arm in (outcome.base, outcome.arm))
    return ", the ring a longest wait that is no gap: the first, or one that no visit ended" if rings else ""


def _cards(outcome: Outcome) -> str:
    said = [
        f"Longest wait {outcome.base.longest} steps under {outcome.base.retrieval}, "
        f"{outcome.arm.longest} under {outcome.arm.retrieval}.",
        f"Mean difference {points(outcome.contrast().mean)} points.",
        "Accuracy after each task, a line for each retrieval.",
    ]
    return "\n".join(
        f"<figure>{inline_svg(picture_svg(draw, outcome), f'p{place}-', words)}</figure>"
        for place, (draw, words) in enumerate(zip(PICTURES, said, strict=True))
    )


def _table(outcome: Outcome) -> str:
    seeds = {**outcome.base.records, **outcome.arm.records}
    heads = "".join(f'<th scope="col">seed {seed}</th>' for seed in seeds)
    rest = "".join(f'<th scope="col">{name}</th>' for name in ("mean", "interval", "t", "p"))
    lines = []
    for readout, name in READOUTS.items():
        lines.append(f'<tr><td class="words" colspan="{len(seeds) + 5}">{escape(name.capitalize())}</td></tr>')
        arms = zip((outcome.base, outcome.arm), outcome.means(readout), strict=True)
        finals = [(one.retrieval, one.final(readout), mean) for one, mean in arms]
        for retrieval, by_seed, mean in finals:
            cells = "".join(_cell(by_seed.get(seed)) for seed in seeds)
            lines.append(f'<tr><td class="name">{escape(retrieval)}</td>{cells}{_cell(mean)}<td colspan="3"></td></tr>')
        found, (base, arm) = outcome.contrast(readout), (finals[0][1], finals[1][1])
        cells = "".join(_difference(arm.get(seed), base.get(seed)) for seed in seeds)
        t = "—" if found.t is None else f"{found.t:.2f}".replace("-", "−")
        figures = (points(found.mean), f"{points(found.low)} to {points(found.high)}", t, f"{found.p:.2g}")
        shown = "".join(f"<td>{figure}</td>" for figure in figures)
        lines.append(f'<tr class="apart"><td class="name">difference</td>{cells}{shown}</tr>')
    return f"""<div class="scroll"><table>
<thead><tr><th></th>{heads}{rest}</tr></thead>
<tbody>
{chr(10).join(lines)}
</tbody>
</table></div>"""


def _cell(value: float | None) -> str:
    return f"<td>{'—' if value is None else percent(value).removesuffix('%')}</td>"


def _difference(a: float | None, b: float | None) -> str:
    return f"<td>{'—' if a is None or b is None else points(a - b)}</td>"


def _material(outcome: Outcome) -> str:
    found = outcome.contrast()
    base = escape(outcome.base.retrieval)
    about = f"{base} named nothing"
    if found.relative is not None:
        about = f"the {READOUTS[FIRST]}'s is {found.relative:+.0%} of {base}'s accuracy".replace("-", "−")
    word = "it is" if found.material else "it is not"
    return f"A difference is called material if its interval excludes 0 and it is more than 2%: {about}, so {word}"


_MORE = """
.big{font-size:1.1rem;max-width:none;margin:.2rem 0 1rem}
.big b{font-size:2.4rem;line-height:1.1;color:var(--c1);font-variant-numeric:tabular-nums}
.big span{display:block;color:var(--muted)}
td.name{text-align:left}
tr.apart td{font-weight:600}
.cards{grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr))}
th{cursor:default}
"""
