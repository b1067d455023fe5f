"""How long devices trained runs: what their spans cover together."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.execute.one import audit
from reprise.lab.device_time import device_time
from reprise.report.run_pages import trained_for
from reprise.runs import Run

START = datetime(2026, 1, 31, 23, 59, 30, tzinfo=timezone.utc)


def record(end: float, took: float, device: str | None = "GPU") -> dict[str, Any]:
    made = {} if device is None else {"device": device, "ended": (START + timedelta(seconds=end)).isoformat()}
    return {"provenance": made, "timings": {"prepare": 7.0, "train": took}}


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 40)), min_size=1, max_size=20))
def test_every_second_counts_once(spans: list[tuple[int, int]]) -> None:
    seconds = {second for end, took in spans for second in range(end - took, end)}
    assert device_time([record(*span) for span in spans]) == {"GPU": len(seconds)}


def test_devices_count_by_themselves_and_audits_not_at_all() -> None:
    records = [record(10, 10.0), record(30, 5.5), record(12, 4.0, "CPU"), record(90, 9.0, None)]
    assert device_time(records) == {"GPU": 15.5, "CPU": 4.0}
    assert device_time([]) == {}


def test_a_device_of_which_one_end_is_not_known_has_no_time_and_is_named() -> None:
    early = record(20, 3.0)
    del early["provenance"]["ended"]
    records = [record(10, 10.0), early, record(30, 10.0), record(12, 4.0, "CPU")]
    assert device_time(records) == {"GPU": None, "CPU": 4.0}
    assert trained_for(records) == (
        "At least one run was being trained for 0.1 minutes on CPU; for how long on GPU is not known."
    )
    assert trained_for(records[:3]) == ""
    assert trained_for([records[0], records[3]]) == (
        "At least one run was being trained for 0.2 minutes on GPU and for 0.1 minutes on CPU."
    )


def test_runs_of_less_than_a_second_add_up() -> None:
    """As a record says it today, to the millisecond."""
    ends = np.arange(1, 41) * 0.25
    assert device_time([record(float(end), 0.25) for end in ends])["GPU"] == pytest.approx(10.0)
    said = audit(Run.of(learner=None, classes=10, steps=50))["provenance"]["ended"]
    assert re.fullmatch(r"[-\d]+T[:\d]+\.\d{3}\+00:00", said)


@pytest.mark.parametrize("zone", ["+00:00", "+05:30"])
def test_ends_may_be_told_in_any_zone(zone: str) -> None:
    one, other = record(10, 10.0), record(10, 10.0)
    hours, minutes = int(zone[1:3]), int(zone[4:])
    there = (START + timedelta(seconds=15)).astimezone(timezone(timedelta(hours=hours, minutes=minutes)))
    other["provenance"]["ended"] = there.isoformat()
    assert device_time([one, other]) == {"GPU": 15.0}
