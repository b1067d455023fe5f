"""`reprise train`: one run from the command line, with a record at its end."""

from __future__ import annotations

import json as jsonlib
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import FlagCreatePairsOff, arg

from reprise.cli.errors import RunFailed, WrongRequest, request
from reprise.cli.output import check_output, write_output
from reprise.core.extras import not_installed

if TYPE_CHECKING:
    from reprise.core.files import Record
    from reprise.train import TrainRun

Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]


def _option(kind: type, metavar: str, default: object = None) -> Any:
    """An option of this kind that is the run's own default when not given; the help says which, held to it by a test.

    Naming the kind keeps the word None from being a value that can be typed.
    """
    hint = "" if default is None else f"(default: {default})"
    return arg(metavar=metavar, constructor=kind, help_behavior_hint=hint)


@dataclass(frozen=True)
class Train:
    """Train a learner on a stream under a replay schedule, and keep a record of the run.

    What was finished is not trained again; what was stopped goes on with --resume, to the very same record.

    Example, without any download: reprise train --dataset glyphs --width 8 --retrieval rpr --out run

    Example, the paper's: reprise train --dataset cifar100 --data data --imbalance 10 --learner er-ace --retrieval rpr
    --buffer 5120 --replay 8 --seed 0 --precision bf16 --out run

    Example, on two devices: torchrun --nproc-per-node 2 -m reprise train --dataset cifar100 --data data --out run
    """

    dataset: Annotated[str | None, _option(str, "NAME|DIR", "glyphs")] = None
    """cifar10, cifar100, tinyimagenet, imagenet-r, glyphs, or a folder of images."""
    data: Annotated[Path | None, _option(Path, "DIR")] = None
    """Folder that holds the data sets; glyphs and a folder of images need none."""
    imbalance: Annotated[float | None, _option(float, "FACTOR", 1)] = None
    """How long the tail is: the largest class of a task over the smallest; 1 is balanced."""
    learner: Annotated[str | None, _option(str, "NAME", "er-ace")] = None
    """er, er-ace, der, der++, der++-ace, refresh, ocm, none (no replay) or joint (all at once)."""
    hyper: Annotated[str | None, _option(str, "NAME=VALUE,...")] = None
    """The learner's hyper-parameters, such as alpha=0.3,beta=0.5."""
    mask: Annotated[str | None, _option(str, "RULE")] = None
    """Which classes the incoming batch competes with: present_and_unseen, present, reference_max, none."""
    head: Annotated[str | None, _option(str, "cosine|linear", "cosine")] = None
    """The network's last layer."""
    storage: Annotated[str | None, _option(str, "SPEC", "reservoir")] = None
    """Who is kept: reservoir, brs, cbrs, fifo."""
    retrieval: Annotated[str | None, _option(str, "SPEC", "rpr")] = None
    """When classes return: uniform, iid, fixed, rpr, reused:K, hybrid:S, window:W, deadline:S, frozen-pass, frozen-iid;
    a schedule may end in +pass; or mir:N, by the network's losses."""
    buffer: Annotated[int | None, _option(int, "N", 5120)] = None
    """Examples that the memory holds."""
    replay: Annotated[int | None, _option(int, "B", 8)] = None
    """Examples replayed a step."""
    seed: Annotated[int | None, _option(int, "SEED", 0)] = None
    """Decides every random choice of the run."""
    out: Annotated[Path | None, _option(Path, "DIR")] = None
    """Folder for the record, the tape, the weights, and checkpoints on the way."""
    resume: Flag = False
    """Go on from the newest checkpoint in --out."""
    device: Annotated[str | None, _option(str, "cpu|cuda", "cuda if there is one")] = None
    """Where to train."""
    precision: Annotated[str | None, _option(str, "fp32|tf32|bf16", "fp32")] = None
    """Arithmetic of the network's passes."""
    backbone: Annotated[str | None, _option(str, "NAME", "resnet18")] = None
    """resnet18, or any network that timm knows."""
    width: Annotated[int | None, _option(int, "W", 64)] = None
    """Channels of resnet18's first layer; the others follow."""
    pretrained: Flag = False
    """Begin with timm's published weights."""
    lr: Annotated[float | None, _option(float, "RATE", "the learner's")] = None
    """Learning rate."""
    optimizer: Annotated[str | None, _option(str, "sgd|adam", "the learner's")] = None
    """Optimiser."""
    momentum: Annotated[float | None, _option(float, "M", "the learner's")] = None
    """Momentum of sgd."""
    weight_decay: Annotated[float | None, _option(float, "RATE", "the learner's")] = None
    """Weight decay."""
    ema: Annotated[int | None, _option(int, "EXAMPLES", 1024)] = None
    """Examples that the averaged read-out looks back over."""
    batch: Annotated[int | None, _option(int, "N", 32)] = None
    """Examples that come in a step."""
    tasks: Annotated[int | None, _option(int, "N", 10)] = None
    """Tasks that the classes are split into."""
    order: Annotated[str | None, _option(str, "label|permuted", "label")] = None
    """Order in which classes come."""
    disjoint: Annotated[float | None, _option(float, "SHARE", 1)] = None
    """Share of classes that stay whole in their task."""
    blur: Annotated[float | None, _option(float, "SHARE", 0)] = None
    """Share of the other classes' images that is spread over the other tasks."""
    validation: Flag = False
    """Hold out a tenth of the training images and test on it, never on the test images."""
    passes: Annotated[str | None, _option(str, "separate|joint", "separate")] = None
    """Incoming and replay batches through the network one at a time, or as one."""
    augment: Annotated[str | None, _option(str, "crop+flip|crop|none", "crop+flip, crop for glyphs")] = None
    """What is done to training images."""
    size: Annotated[int | None, _option(int, "PIXELS")] = None
    """Side to which images are resized; their own unless told."""
    holdout: Annotated[float | None, _option(float, "SHARE")] = None
    """Share of every class to test on, for a folder without a test part."""
    per_class: Annotated[int | None, _option(int, "N")] = None
    """Training images of each class, the first ones; all unless told."""
    test_per_class: Annotated[int | None, _option(int, "N")] = None
    """Test images of each class, the first ones; all unless told."""
    evaluate_every: Annotated[int | None, _option(int, "STEPS", 0)] = None
    """Test also every so many steps, not at task boundaries alone; 0 for never."""
    checkpoint_every: Annotated[int, arg(metavar="STEPS")] = 0
    """Keep a checkpoint also every so many steps, not at task boundaries alone; 0 for never."""
    virtual_loss: Annotated[str | None, _option(str, "plain|own", "plain")] = None
    """For mir:N: the loss of the virtual step, the plain one or the learner's own."""
    scoring: Annotated[str | None, _option(str, "train|eval", "train")] = None
    """For mir:N: how BatchNorm behaves while candidates are scored."""
    json: Annotated[str | None, _option(str, "FILE|-")] = None
    """Write the configuration and all figures to this file as JSON; - prints them instead of the table."""

    def run(self) -> int:
        if find_spec("torch") is None:
            raise WrongRequest(not_installed("training needs torch", "train"))
        with request():
            config = self.config()
        self._check(config)
        with _processes(self.device) as (device, first):
            record = self._train(config, device, first)
            if first:
                self._report(record)
        return 0

    def config(self) -> TrainRun:
        """The run that was asked for: what was not given is the run's own default."""
        from reprise.train import TrainRun

        settings = {name: getattr(self, name) for name in TrainRun.__dataclass_fields__ if hasattr(self, name)}
        given = {name: value for name, value in settings.items() if value is not None and value is not False}
        learner = TrainRun.learner if self.learner is None else self.learner
        return TrainRun(**{**given, "hyper": self._hyper(learner)})

    def _hyper(self, learner: str) -> dict[str, float | int | str]:
        from reprise.learners import LEARNERS, find_learner, hyperparameters
        from reprise.learners.losses import check_mask

        find_learner(learner)
        found = {} if self.hyper is None else read_hyper(self.hyper)
        if self.mask is None:
            return found
        masked = [name for name in LEARNERS if "mask" in hyperparameters(name)]
        if learner not in masked:
            raise ValueError(f"--mask: learner {learner!r} has no mask; these have one: {', '.join(masked)}")
        if found.setdefault("mask", check_mask(self.mask)) != self.mask:
            raise ValueError(f"--mask {self.mask} and --hyper mask={found['mask']} contradict each other")
        return found

    def _check(self, config: TrainRun) -> None:
        """What can be known to be wrong before any image is read."""
        from reprise.core.arguments import as_int
        from reprise.data import find_dataset
        from reprise.data.loading import data_folder
        from reprise.nets import from_timm
        from reprise.streams.datasets import looks_like_path

        with request():
            as_int(self.checkpoint_every, "--checkpoint-every", 0)
            if self.data is not None:
                data_folder(self.data)
            if not looks_like_path(config.dataset):
                source = find_dataset(config.dataset)
                if source.url and self.data is None:
                    raise ValueError(
                        f"--dataset {config.dataset} needs --data DIR, the folder that holds {source.folder}; only "
                        "glyphs needs no files"
                    )
            if from_timm(config.backbone):
                _need_timm(config.backbone)
        if self.json is not None and self.json != "-":
            check_output(self.json, "--json")
        if self.out is None:
            for option, value in (("--resume", self.resume), ("--checkpoint-every", self.checkpoint_every)):
                if value:
                    raise WrongRequest(f"{option} needs --out DIR, the folder of the checkpoints")
            return
        if self.out.exists() and not self.out.is_dir():
            raise WrongRequest(f"--out: {str(self.out)!r} is a file; name a folder")
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongRequest(f"--out: cannot make the folder {str(self.out)!r}: {error.strerror}") from error
        check_output(str(self.out / "record.json"), "--out")
        if find_spec("safetensors") is None:
            raise WrongRequest(not_installed("--out needs safetensors", "train"))

    def _train(self, config: TrainRun, device: str, first: bool) -> Record:
        import torch

        from reprise.train import Images, train

        if self.out is not None and (self.out / "record.json").exists():
            record = train(config, data=self.data, out=self.out)  # the one that is there, if it is this run's
            if first:
                print("this run was finished before; its record is shown", file=sys.stderr)
            return record
        chosen: dict[str, Any] = {
            "out": self.out,
            "resume": self.resume,
            "device": device,
            "checkpoint_every": self.checkpoint_every,
        }
        if first and self.out is None:
            print("nothing of this run is kept but what is printed: --out DIR keeps it", file=sys.stderr)
        try:
            if not first:
                return train(config, data=self.data, **chosen)
            from reprise.cli.display import Watch, screen

            with screen(_about(config, device)) as shown:
                images = Images.load(config, self.data, shown.reading)
                return train(config, images, watch=Watch(shown), warn=shown.say, **chosen)
        except KeyboardInterrupt:
            if first and self.out is not None:
                print(
                    "the same command with --resume goes on from the last checkpoint, if there is one", file=sys.stderr
                )
            raise
        except (MemoryError, torch.OutOfMemoryError) as error:
            where = "this machine" if isinstance(error, MemoryError) else device
            raise RunFailed(f"the run failed: the memory of {where} does not suffice; try a smaller --width") from error

    def _report(self, record: Record) -> None:
        if self.json is not None:
            text = jsonlib.dumps([as_json(record)], indent=1, allow_nan=False) + "\n"
            if self.json == "-":
                sys.stdout.write(text)
                return
            write_output(self.json, text.encode())
        from rich.console import Console
        from rich.text import Text

        from reprise.cli.display import results

        wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
        console = Console(width=wide, highlight=False)
        console.print(results(record))
        places = (("Figures", self.json), ("Record", None if self.out is None else self.out / "record.json"))
        for what, path in places:
            if path is not None:
                console.print(Text(f"{what}: {path}", style="dim"), soft_wrap=True)


def _need_timm(backbone: str) -> None:
    from reprise.nets.vit import import_timm

    try:
        import_timm(backbone)
    except ModuleNotFoundError as error:
        raise WrongRequest(f"--backbone: {error}") from error


def read_hyper(text: str) -> dict[str, float | int | str]:
    """Hyper-parameters from text, numbers as numbers.

    >>> read_hyper("alpha=0.3,refresh=5000,mask=present")
    {'alpha': 0.3, 'refresh': 5000, 'mask': 'present'}
    """
    found: dict[str, float | int | str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise ValueError(f"--hyper takes name=value, several separated by commas, got {text!r}")
        if name in found:
            raise ValueError(f"--hyper gives {name!r} twice, got {text!r}")
        found[name] = _value(name, value)
    return found


def _value(name: str, text: str) -> float | int | str:
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        if not math.isfinite(value):
            raise ValueError(f"--hyper {name} must be finite, got {text}")
        return value
    return text


def as_json(record: Record) -> dict[str, Any]:
    """A run as other commands report theirs: what it was, the audit's figures, and the metrics of both read-outs."""
    from reprise.audit import KEYS

    settings = record["configuration"]
    figures = {key: record["audit"][key] for key in KEYS}
    found = {**figures, "prequential": record["prequential"]["accuracy"], "metrics": record["metrics"]}
    return {
        "stream": record["stream"]["name"],
        **{name: settings[name] for name in ("storage", "retrieval", "buffer", "replay")},
        "seeds": 1,
        "learner": settings["learner"],
        "split": record["split"],
        "configuration": settings,
        **found,
        "per_seed": [{"seed": record["seed"], "identity": record["identity"], "tape": record["tape"], **found}],
    }


def _about(config: TrainRun, device: str) -> str:
    from reprise.streams.datasets import tail_name

    stream = f"{Path(config.dataset).name}-{tail_name(config.imbalance)}"
    memory = f"{config.storage} {config.buffer:,} · {config.retrieval} {config.replay}" if config.draws else "no replay"
    return f"{config.learner} on {stream} · {memory} · seed {config.seed} · {device}"


@contextmanager
def _processes(asked: str | None) -> Iterator[tuple[str, bool]]:
    """The device to train on, and whether this process speaks; joined with the others where torchrun began several."""
    device = device_for(asked)
    if not {"RANK", "WORLD_SIZE"} <= set(os.environ):
        yield device, True
        return
    import torch
    import torch.distributed as dist

    from reprise.train.ranks import leave

    if device != "cpu":
        device = _own_device(device)
        torch.cuda.set_device(device)
    try:
        dist.init_process_group("gloo" if device == "cpu" else "nccl")
    except ValueError as error:
        raise WrongRequest(f"RANK and WORLD_SIZE are set, as torchrun sets them, but {error}") from error
    try:
        yield device, dist.get_rank() == 0
    finally:
        leave()


def device_for(asked: str | None) -> str:
    """The device that was asked for, or the best there is."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = ("cuda" if count else "cpu") if asked is None else asked
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise WrongRequest(f"--device must be cpu, cuda or cuda:N, got {device!r}")
    if device != "cpu" and not count:
        raise WrongRequest(f"--device {device}: torch finds no such device here; --device cpu does without")
    if int(device.partition(":")[2] or 0) >= max(count, 1):
        raise WrongRequest(f"--device {device}: this machine has {count}, numbered from 0")
    return device


def _own_device(device: str) -> str:
    """This process's device among those of the machine."""
    import torch

    if device != "cuda":
        raise WrongRequest(f"--device {device} is one device, and several processes share the run; write --device cuda")
    mine, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if mine >= count:
        raise WrongRequest(
            f"there are more processes here than devices: {count}, and process {mine}, counted from 0, has none"
        )
    return f"cuda:{mine}"
