"""The demo's page."""

from __future__ import annotations

from reprise.lab.comparison import points
from reprise.lab.run_group import READOUTS
from reprise.report.demo_result import FIRST, Outcome
from reprise.report.pair_table import pairs
from reprise.report.render import render
from reprise.report.run_figures import draw_curves, draw_pairs, draw_waits, save
from reprise.report.run_pages import has_ring, made_by, pictures

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
    "chance. So it is a demonstration. It does not measure how large the difference is elsewhere: the interval is "
    "about other seeds of this setting, not about other settings."
)
"""How the setting was chosen, and how far the result reaches; the page on the demo says the same."""
_PICTURES = (draw_waits, draw_pairs, draw_curves)


def page(outcome: Outcome, command: str, version: str, seconds: float | None = None) -> str:
    """The page as text: what it means, the pictures, the figures of every pair, and how it was made.

    `seconds` is the time that the demo took, if it was made at one go.
    """
    found, base, arm = outcome.contrast(), outcome.base, outcome.arm
    said = [
        f"Longest wait {base.longest} steps under {base.name}, {arm.longest} under {arm.name}.",
        f"Mean difference {points(found.mean)} points.",
        "Accuracy after each task, a line for each retrieval.",
    ]
    return render(
        "demo",
        arm=arm.name,
        base=base.name,
        caption=outcome.caption,
        schedules=[(name, MEANING[name]) for name in (base.name, arm.name) if name in MEANING],
        mean=points(found.mean),
        interval=f"{found.confidence:.0%} interval {points(found.low)} to {points(found.high)}",
        found=found,
        sentences=outcome.sentences,
        choice=CHOICE,
        pictures=pictures(outcome.comparison, _PICTURES, said),
        ring=has_ring(outcome.comparison),
        seeds=outcome.comparison.seeds,
        pairs=pairs(outcome.comparison),
        material=_material(outcome),
        seconds=seconds,
        made_by=made_by([*base.records.values(), *arm.records.values()]),
        command=command,
        version=version,
    )


def picture(outcome: Outcome) -> bytes:
    """The three pictures side by side, as the bytes of a PNG file."""
    return save(outcome.comparison, "png", _PICTURES)


def _material(outcome: Outcome) -> str:
    found, base = outcome.contrast(), outcome.base.name
    about = f"{base} named nothing"
    if found.relative is not None:
        about = f"the {READOUTS[FIRST]}'s is {found.relative:+.0%} of {base}'s accuracy".replace("-", "−")
    interval = f"its interval {'excludes' if found.clear else 'includes'} 0"
    word = "it is" if found.material else "it is not"
    return (
        "A difference is called material if its interval excludes 0 and it is more than 2% of the accuracy compared "
        f"with: {about} and {interval}, so {word}"
    )
