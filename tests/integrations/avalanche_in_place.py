"""A pytest plugin for Avalanche's own tests: they find our buffer where they import Avalanche's."""

from __future__ import annotations

import sys
from typing import Any

MADE: set[str] = set()


def pytest_configure(config: Any) -> None:
    import avalanche.training.plugins
    import avalanche.training.supervised  # noqa: F401  (so that all modules that name a buffer are there)
    from avalanche.training import storage_policy

    from reprise.integrations.avalanche import MemoryBuffer

    class Noting(MemoryBuffer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            MADE.add(type(self).__name__)
            super().__init__(*args, **kwargs)

    class ReservoirSamplingBuffer(Noting):
        def __init__(self, max_size: int) -> None:
            super().__init__(max_size, "reservoir", by=None)

    class ExperienceBalancedBuffer(Noting):
        def __init__(self, max_size: int, adaptive_size: bool = True, num_experiences: int | None = None) -> None:
            super().__init__(max_size, "cbrs", by="experience")

    class ClassBalancedBuffer(Noting):
        def __init__(self, max_size: int, adaptive_size: bool = True, total_num_classes: int | None = None) -> None:
            super().__init__(max_size, "cbrs")

    class ParametricBuffer(Noting):
        def __init__(self, max_size: int, groupby: Any = None, selection_strategy: Any = None) -> None:
            assert selection_strategy is None, "a choice by features is not ours"
            super().__init__(max_size, "brs", by=groupby)

    ours = (ReservoirSamplingBuffer, ExperienceBalancedBuffer, ClassBalancedBuffer, ParametricBuffer)
    theirs = {getattr(storage_policy, one.__name__): one for one in ours}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "avalanche":
            for word, value in list(vars(module).items()):
                if isinstance(value, type) and value in theirs:
                    setattr(module, word, theirs[value])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"in place of Avalanche's: {', '.join(sorted(MADE)) or 'none'}")
