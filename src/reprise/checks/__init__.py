"""Contract checks for anybody's policies: what ours must prove, yours can prove too.

    from reprise.checks import check_schedule
    check_schedule(MySchedule())

Each check drives the policy through fixed-seed trials and raises `Broken`, an AssertionError whose sentence
says what was promised, what happened and how to see it again. It returns nothing when all is well.
"""

from reprise.checks.common import Broken
from reprise.checks.retrieval import check_retrieval
from reprise.checks.schedule import check_schedule
from reprise.checks.storage import check_storage

__all__ = ["Broken", "check_retrieval", "check_schedule", "check_storage"]
