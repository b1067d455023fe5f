"""`reprise config`: print the description of a run, as `--config` reads it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, arg

from reprise.cli.errors import WrongRequest
from reprise.cli.train import TrainOptions


@dataclass(frozen=True, kw_only=True)
class Config(TrainOptions):
    """Print the full description of a run: every setting, those that were not given included.

    Example: reprise config --dataset cifar100 --imbalance 10 --retrieval iid > run.toml

    Then: reprise train --config run.toml --data data --seeds 0-9 --out runs
    """

    json: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """As JSON, not TOML."""

    def run(self) -> int:
        from reprise.runs import to_json, to_toml

        runs = self.runs()
        if len(runs) > 1:
            raise WrongRequest(f"config prints one run, and these settings make {len(runs)}: give one value each")
        sys.stdout.write(to_json(runs[0]) if self.json else to_toml(runs[0]))
        return 0
