"""The theory beside an audit: `reprise.memory.theory`, where schedules have their laws from."""

from reprise.memory.theory import *  # noqa: F403
from reprise.memory.theory import __all__ as __all__
