"""`reprise train`: what it asks for, what it leaves behind, how it goes on, and how it fails."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs torch")

from cli.pictures import command, kept  # noqa: E402

import reprise.train  # noqa: E402
from reprise.audit import KEYS  # noqa: E402
from reprise.cli import main  # noqa: E402
from reprise.cli.display import Watch  # noqa: E402
from reprise.cli.train import Train  # noqa: E402
from reprise.learners import LEARNERS  # noqa: E402
from reprise.runs import Run, Store  # noqa: E402
from reprise.train import ranks  # noqa: E402

pytestmark = pytest.mark.usefixtures("alone")
MAKES = ("reprise.train.train", "reprise.cli.training.train")
DOCS = Path(__file__).resolve().parents[2] / "docs"


def stopped(line: list[str], step: int) -> int:
    """Run the command, and press Ctrl-C after this step."""

    def stop(watch: Watch, run: Any, trained: Any) -> None:
        if trained.step == step:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watch, "__call__", stop)
        return main(line)


def test_run_ends_in_a_record(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "new" / "runs")
    assert main(command(pictures, "--out", str(store.folder))) == 0
    out, err = capsys.readouterr()
    (record,) = store.records(pytest.fail)
    assert {path.name for path in store.folder.iterdir()} == {"records", "files", "claims", "unfinished", "index.md"}
    weights = {"tape.safetensors", "ema.safetensors", "live.safetensors"}
    assert {path.name for path in store.files(record["identity"]).iterdir()} == weights
    assert [*store.folder.glob("claims/*"), *store.folder.glob("unfinished/*")] == []
    asked = Run.of(dataset=str(pictures), buffer=8, replay=2, width=2, tasks=2, batch=4)
    assert record["run"] == asked.to_dict()

    table = {line[:27].strip(): line[27:].split() for line in out.splitlines()}
    assert table["final task-mean accuracy"] == [
        f"{100 * record['metrics'][name]['final']:.2f}" for name in ("ema", "live")
    ]
    assert out.splitlines()[-2].startswith("A class came back after ")
    assert out.splitlines()[-1] == f"Record: {store.record_file(record['identity'])}"

    start, first, second = err.splitlines()
    assert start == "er-ace on pictures-balanced · reservoir 8 · rpr 2 · seed 0 · cpu"
    figures = r"loss \d+\.\d\d · accuracy ema [\d.]+% live [\d.]+% · [\d.]+ steps/s · \d+ s"
    assert re.fullmatch(rf"task 1 of 2 · step 3 of 6 · {figures} left", first)
    assert re.fullmatch(rf"task 2 of 2 · step 6 of 6 · {figures} in all", second)


def test_finished_run_is_not_run_again(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = command(pictures, "--out", str(tmp_path), "--learner", "none")
    assert main(line) == 0
    once = capsys.readouterr()
    assert "none on pictures-balanced · no replay · seed 0" in once.err
    assert "Nothing came back by replay." in once.out
    with monkeypatch.context() as patch:
        patch.setattr(reprise.train.training, "Training", lambda *_, **__: pytest.fail("it was trained again"))
        assert main(line) == 0
    again = capsys.readouterr()
    assert again.out == once.out
    assert again.err.splitlines()[-1] == "this run was finished before; its record is shown"
    assert main([*line, "--seed", "1"]) == 0  # another run, in the same store
    assert len(list(Store(tmp_path).records(pytest.fail))) == 2


def test_a_damaged_record_is_named_and_made_again(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = command(pictures, "--out", str(tmp_path))
    assert main(line) == 0
    once, (file,) = kept(tmp_path), (tmp_path / "records").iterdir()
    file.write_text("{", encoding="utf-8")
    capsys.readouterr()
    assert main(line) == 0
    assert f"The record {file} is damaged: it is not JSON" in capsys.readouterr().err
    assert kept(tmp_path) == once


def test_a_run_of_an_older_version_is_not_a_store(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "record.json").touch()
    assert main(command(pictures, "--out", str(tmp_path))) == 2
    assert capsys.readouterr().err == (
        f"reprise: --out: '{tmp_path}' holds a run of an older version of reprise; name another folder, which may then "
        "hold any number of runs\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_json(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, folder = tmp_path / "figures.json", tmp_path / "run"
    line = command(pictures, "--out", str(folder), "--seed", "3", "--imbalance", "2", "--retrieval", "reused:4")
    assert main([*line, "--json", str(target)]) == 0
    assert f"Figures: {target}" in capsys.readouterr().out
    (row,) = json.loads(target.read_text())
    record = kept(folder)
    head = ["stream", "storage", "retrieval", "buffer", "replay", "seeds", "learner", "split", "run"]
    assert list(row) == [*head, *KEYS, "prequential", "metrics", "per_seed"]
    assert (row["retrieval"], row["buffer"], row["replay"], row["seeds"]) == ("reused:4", 8, 2, 1)
    assert row["stream"].startswith("pictures-lt2")
    assert row["metrics"] == record["metrics"]
    assert list(row["metrics"]) == ["ema", "live"]
    assert [row[key] for key in KEYS] == [record["audit"][key] for key in KEYS]
    (one,) = row["per_seed"]
    assert [one[key] for key in ("seed", "identity", "metrics", "tape")] == [
        3, *(record[key] for key in ("identity", "metrics", "tape"))
    ]  # fmt: skip

    assert main([*line, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == [row]


def test_stopped_run_goes_on_to_the_same_record(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(command(pictures, "--out", str(whole))) == 0
    line = command(pictures, "--out", str(parts), "--checkpoint-every", "2")

    capsys.readouterr()
    assert stopped(line, 5) == 130
    assert capsys.readouterr().err.endswith(
        "the same command goes on from the last checkpoint, if there is one\nreprise: stopped before it was done\n"
    )
    identity = kept(whole)["identity"]
    folder = parts / "unfinished" / identity
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000003", "step-00000004"]
    assert list(parts.glob("claims/*")) == []
    assert main(line) == 0
    assert "goes on after step 4 of 6" in capsys.readouterr().err
    assert kept(parts) == kept(whole)
    for name in ("tape", "ema", "live"):
        one, other = (root / "files" / identity / f"{name}.safetensors" for root in (whole, parts))
        assert one.read_bytes() == other.read_bytes()
    assert not folder.exists()


def test_damaged_checkpoint_is_named(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = command(pictures, "--out", str(tmp_path))

    assert stopped(line, 4) == 130
    (state,) = (tmp_path / "unfinished").glob("*/*/state.safetensors")
    state.write_bytes(state.read_bytes()[:-1])
    capsys.readouterr()
    assert main(line) == 0
    assert f"The checkpoint {state.parent} is damaged" in capsys.readouterr().err


FOLDER = "train --dataset {pictures} --width 2 --tasks 2"
WRONG = {
    "train --learner era": "unknown learner 'era': did you mean 'er",
    "train --learner er --mask present": "--mask: learner 'er' has no mask; these have one: der++-ace, er-ace",
    "train --mask nothing": "a mask is one of present_and_unseen, present, reference_max, none, got 'nothing'",
    "train --mask present --hyper mask=none": "--mask present and --hyper mask=none contradict each other",
    "train --hyper alpha=1": "learner 'er-ace' has no hyper-parameter 'alpha': it has mask",
    "train --hyper mask": "--hyper takes name=value, several separated by commas, got 'mask'",
    "train --hyper mask=none,mask=none": "--hyper gives 'mask' twice",
    "train --hyper mask=1": "the mask of learner 'er-ace' must be a word",
    "train --hyper mask=nan": "--hyper mask must be finite, got nan",
    "train --retrieval rrp": "unknown retrieval 'rrp': did you mean 'rpr'?",
    "train --storage lifo": "unknown storage 'lifo': did you mean 'fifo'?",
    "train --head round": "head must be one of cosine, linear, got 'round'",
    "train --precision fp8": "precision must be one of fp32, tf32, bf16, got 'fp8'",
    "train --order random": "order must be one of label, permuted, got 'random'",
    "train --imbalance 0": "imbalance must be 1 or more, got 0",
    "train --replay -1": "replay must be 0 or more, got -1",
    "train --buffer ten": "--buffer must be a whole number, got 'ten'",
    "train --buffer 8,,9": "--buffer takes values separated by single commas, got '8,,9'",
    "train --seeds 2-0": "--seeds: a range goes up, got '2-0'",
    "train --seeds 0": "--seeds must be 1 or more, got 0",
    "train --seeds 2 --seed 3": "--seed and --seeds say the same thing: give one of the two",
    "train --jobs 0": "--jobs must be 1 or more, got 0",
    "train --lanes 0": "--lanes must be 1 or more, got 0",
    "train --config none.toml": "'none.toml' cannot be read: No such file or directory",
    "train --config file": "a description is a file that ends in .toml or .json, got 'file'",
    "train --lr fast": "--lr must be a number, got 'fast'",
    "train --lr -1": "lr must be 0 or more, got -1",
    "train --epochs 3": "unknown options: --epochs, 3",
    "train --dataset cifr": "unknown data set 'cifr': did you mean 'cifar10'?",
    "train --dataset cifar100": "the data set cifar100 needs --data DIR, the folder that holds cifar-100-python",
    "train --dataset ./none": "none",
    "train --resume": "unknown options: --resume",
    "train --checkpoint-every 5": "--checkpoint-every needs --out DIR",
    "train --checkpoint-every -5 --out run": "--checkpoint-every must be 0 or more, got -5",
    "train --out file": "--out: 'file' is a file; name a folder",
    "train --json nowhere/a.json": "--json: there is no folder 'nowhere'",
    "train --device tpu": "--device must be cpu, cuda or cuda:N, several as cuda:0,cuda:1, got 'tpu'",
    "train --device cpu,cuda:0": "--device must be cpu, cuda or cuda:N",
    "train --device cuda": "--device cuda: torch finds no such device here; --device cpu does without",
    f"{FOLDER} --holdout 0.2": "has a test part of its own",
    f"{FOLDER} --width 2 --backbone resnet18 --pretrained": "no weights are published for this 'resnet18'",
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_wrong_request(
    line: str, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(line.format(pictures=pictures).split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    said = err.splitlines()[-1]
    assert said.startswith("reprise: ")
    assert WRONG[line] in said
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_training_needs_torch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("reprise.cli.train.find_spec", lambda name: None)
    assert main(["train"]) == 2
    assert capsys.readouterr().err.startswith("reprise: training needs torch, which is not installed; the extra")


def test_run_that_fails(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(pictures, "--lr", "1e30", "--out", str(tmp_path))) == 1
    assert re.search(r"reprise: the loss of step \d of 6 is nan: training has diverged", capsys.readouterr().err)
    assert list(Store(tmp_path).records()) == []
    assert main(["train", "--dataset", "cifar10", "--data", str(tmp_path)]) == 1
    assert "reprise: there is no folder cifar-10-batches-py of cifar10 in" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_memory_that_does_not_suffice(
    error: Exception, pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    for place in MAKES:
        monkeypatch.setattr(place, fail)
    assert main(command(pictures)) == 1
    where = "this machine" if isinstance(error, MemoryError) else "cpu"
    assert f"the memory of {where} does not suffice; try a smaller --width" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "environment", "device"),
    [
        ([], {}, "cuda"),
        (["--device", "cpu"], {}, "cpu"),
        (["--device", "cuda:1"], {}, "cuda:1"),
        (["--device", "cuda:2"], {}, "--device cuda:2: this machine has 2, numbered from 0"),
        ([], {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, "cuda:1 nccl"),
        ([], {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "2"}, "there are more processes here than devices: 2"),
        (["--device", "cuda:1"], {"RANK": "0", "WORLD_SIZE": "2"}, "--device cuda:1 is one device"),
        (["--device", "cpu"], {"RANK": "1", "WORLD_SIZE": "2"}, "cpu gloo"),
    ],
)
def test_device(asked: list[str], environment: dict[str, str], device: str, request: pytest.FixtureRequest) -> None:
    """On a machine with two devices, so far as torch says."""
    pictures, monkeypatch, capsys = map(request.getfixturevalue, ("pictures", "monkeypatch", "capsys"))
    chosen: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: chosen.append(device))
    monkeypatch.setattr(torch.distributed, "init_process_group", chosen.append)
    monkeypatch.setattr(ranks, "leave", lambda: chosen.append("left"))
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: int(os.environ["RANK"]))
    monkeypatch.setattr(ranks.Ranks, "here", lambda: ranks.Ranks(int(os.environ["RANK"])))

    def fail(*_: object, **chosen: object) -> None:
        raise RuntimeError(f"trains on {chosen['device']}")

    for place in MAKES:
        monkeypatch.setattr(place, fail)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    wrong = " " in device and not device.startswith(("cuda:1 n", "cpu "))
    assert main(command(pictures, *asked)) == (2 if wrong else 1)
    err = capsys.readouterr().err
    if wrong:
        assert device in err
        return
    where, *group = device.split()
    assert f"trains on {where}" in err
    assert chosen == ([where] if where != "cpu" and group else []) + group + (["left"] if group else [])
    if environment:
        assert len(err.splitlines()) == 1  # only the first process shows how far the run is


def test_half_an_environment_is_a_wrong_request(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert main(command(pictures)) == 2
    assert "RANK and WORLD_SIZE are set, as torchrun sets them, but" in capsys.readouterr().err
    assert not torch.distributed.is_initialized()


def test_two_processes_share_a_run(pictures: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    line = [sys.executable, "-m", "reprise", *command(pictures, "--out", str(tmp_path / "run"), "--device", "cpu")]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONIOENCODING": "utf-8"}
    places = [{**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    processes = [subprocess.Popen(line, env=place, **pipes) for place in places]
    try:
        (first, said), (second, silent) = (process.communicate(timeout=120) for process in processes)
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said + silent
    assert "final task-mean accuracy" in first
    assert "task 2 of 2 · step 6 of 6" in said
    assert second == ""
    assert not re.search("task|FutureWarning", silent)
    record = kept(tmp_path / "run", everything=True)
    assert record["provenance"]["processes"] == 2
    assert f"| {record['name']} |" in (tmp_path / "run" / "index.md").read_text(encoding="utf-8")
    # Both read the same tape as one process alone would.
    assert main(command(pictures, "--out", str(tmp_path / "alone"))) == 0
    assert record["tape"] == kept(tmp_path / "alone")["tape"]
    assert record["identity"] == kept(tmp_path / "alone")["identity"]


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from reprise.cli import main; assert main(['train', '--help']) == 0; "
        "assert not {'torch', 'PIL', 'reprise.train'} & set(sys.modules), 'imported for help'"
    )
    environment = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: reprise train")
    assert "reprise train --dataset" in done.stdout.split("Example", 1)[1]
    words = set(re.findall(r"[\w+:-]+", done.stdout))
    spoken = {f"--{field.name.replace('_', '-')}" for field in fields(Train)}
    assert spoken <= words
    assert set(LEARNERS) <= words


def test_page_says_what_a_record_holds(pictures: Path, tmp_path: Path) -> None:
    page = (DOCS / "store.md").read_text(encoding="utf-8")
    assert main(command(pictures, "--out", str(tmp_path / "run"))) == 0
    record = kept(tmp_path / "run", everything=True)
    section = page.split("## What a record holds")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(record)
    for file in (tmp_path / "run").rglob("*"):
        if file.parent.name != "records":
            assert file.name in page or file.name == record["identity"], file
