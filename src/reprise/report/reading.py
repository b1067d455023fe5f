"""What the figures say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from reprise.report.summary import Summary


def read(group: Sequence[Summary]) -> list[str]:
    """Two or three sentences on rows that differ in retrieval alone: waits, bounds broken, pairs met."""
    sentences = [_waits(group), _broken(group), _pairs(group)]
    return [sentence for sentence in sentences if sentence]


def _waits(group: Sequence[Summary]) -> str:
    known = [one for one in group if one.longest is not None]
    if not known:
        return "No class came back while it was stored, so there is no wait to report."
    means = sorted(one.means["mean"] or 0.0 for one in known)
    least, most = f"{means[0]:.2f}", f"{means[-1]:.2f}"
    mean = least if least == most else f"{least} to {most}"
    runs = len(group[0].seeds)
    where = "" if runs == 1 else f" in any of {runs} runs"
    longest = listed([_wait(one) for one in known])
    return f"A stored class waited {mean} steps on average; the longest wait{where} was {longest}."


def _wait(one: Summary) -> str:
    wait = f"{one.longest} under {one.run.retrieval}"
    if one.bound is None:
        return f"{wait} (no bound)"
    if one.longest is None or one.longest <= one.bound:
        return f"{wait} (bound {one.bound})"
    return f"{wait} (bound {one.bound} for classes that stay; here they came and went)"


def _broken(group: Sequence[Summary]) -> str:
    broke = [one for one in group if one.means["violations"]]
    kept = [one.run.retrieval for one in group if one.longest is not None and not one.means["violations"]]
    bound = "A randomised pass bounds every wait, also while classes come and go"
    if not broke:
        return f"{bound}: {listed(kept)} kept to that bound throughout." if kept else ""
    counts = listed([f"{one.run.retrieval} {_count(one.means['violations'])}" for one in broke])
    never = f", {listed(kept)} never" if kept else ""
    return f"{bound}. Past that bound went {counts} times a run{never}."


def _pairs(group: Sequence[Summary]) -> str:
    shares = [(one.run.retrieval, one.means["pair_coverage"]) for one in group]
    said = [f"{share:.0%} under {name}" for name, share in shares if share is not None]
    if not said:
        return ""
    said[0] = said[0].replace(" under", " met in a batch under", 1)
    return f"Of all class pairs, {listed(said)}."


def _count(value: float | None) -> str:
    assert value is not None
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def listed(items: Sequence[str]) -> str:
    """Join by commas, the last by "and".

    >>> listed(["iid", "fixed", "rpr"])
    'iid, fixed and rpr'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
