"""A stand-in for the processes that plan tapes."""

from __future__ import annotations

import time
from collections import deque

from reprise.core.workers import WorkerLost


class Planner:
    """Plans tapes when it is asked for news: processes take seconds to begin."""

    left = 1000  # tapes that it will plan

    def __init__(self, make, jobs):
        self.task = make(0)
        self.waiting = deque()

    def submit(self, item):
        self.waiting.append(item)

    def poll(self, timeout):
        if not self.waiting:
            time.sleep(1e-3)
            return []
        item = self.waiting.popleft()
        self.left -= 1
        return [(item, self.task(item, None) if self.left >= 0 else WorkerLost("a process was killed"))]

    def __exit__(self, *_):
        pass
