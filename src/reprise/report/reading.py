"""What the figures say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from reprise.report.summary import Summary, figure


def read(group: Sequence[Summary]) -> list[str]:
    """Two or three sentences on rows that differ in retrieval alone: waits, bounds broken, pairs met."""
    sentences = [_waits(group), _broken(group), _pairs(group)]
    return [sentence for sentence in sentences if sentence]


def _waits(group: Sequence[Summary]) -> str:
    known = [one for one in group if one.longest is not None]
    if not known:
        return "No class was stored when a batch was drawn, so there is no wait to report."
    means = sorted(value for one in known if (value := one.means["mean"]) is not None)
    least, most = (f"{means[place]:.2f}" if means else "" for place in (0, -1))
    mean = least if least == most else f"{least} to {most}"
    came = (
        f"A stored class came back after {mean} steps on average" if means else "No class came back while it was stored"
    )
    runs = len(group[0].seeds)
    where = "" if runs == 1 else f" in any of {runs} runs"
    return f"{came}; the longest wait{where}, ended or not, was {listed([_wait(one) for one in known])}."


def _wait(one: Summary) -> str:
    wait = f"{one.longest} under {one.retrieval}"
    if one.bound is None:
        return f"{wait} (no bound)"
    if one.longest is None or one.longest <= one.bound:
        return f"{wait} (bound {figure(one.bound, 0)})"
    return f"{wait} (bound {figure(one.bound, 0)} for classes that stay; here they came and went)"


def _broken(group: Sequence[Summary]) -> str:
    """How many waits of each kind went past what a randomised pass allows; the kinds are named once."""
    known = [one for one in group if one.longest is not None]
    counts = [(one.retrieval, one.means["violations"] or 0.0, one.means["overdue"] or 0.0) for one in known]
    kept = [name for name, *past in counts if not any(past)]
    bound = "A randomised pass bounds every wait, also while classes come and go"
    if len(kept) == len(known):
        return f"{bound}: {listed(kept)} kept to that bound throughout." if kept else ""
    past = [f"{_count(gaps)} and {_count(other)} under {name}" for name, gaps, other in counts if gaps or other]
    past[0] = past[0].replace(" and ", " gaps and ", 1).replace(" under", " other waits past that bound under", 1)
    none = f", none under {listed(kept)}" if kept else ""
    return f"{bound}. A run had {listed(past)}{none}."


def _pairs(group: Sequence[Summary]) -> str:
    shares = [(one.retrieval, one.means["pair_coverage"]) for one in group]
    said = [f"{share:.0%} under {name}" for name, share in shares if share is not None]
    if not said:
        return ""
    said[0] = said[0].replace(" under", " met in a batch under", 1)
    return f"Of all class pairs, {listed(said)}."


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def listed(items: Sequence[str]) -> str:
    """Join by commas, the last by "and".

    >>> listed(["iid", "fixed", "rpr"])
    'iid, fixed and rpr'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
