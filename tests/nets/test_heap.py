"""Training on a CPU writes nowhere but into its own memory, whatever instructions oneDNN may use.

With AVX2 and without AVX-512, oneDNN's backward pass of a strided 1×1 convolution of channels-last images writes past
its memory. That ends the process at once or much later; glibc's checks of the heap make it end at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

TRAIN = """
import json, sys
import torch
from reprise.nets import build

for name, width, side in json.loads(sys.argv[1]):
    print(name, width, flush=True)  # the last one printed is the one that a process ends at
    net = build(name, classes=10, width=width)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03)
    for size in (32, 8, 1) * 2:
        pixels = torch.rand(size, side, side, 3).permute(0, 3, 1, 2)  # channels last, as training has them
        net(pixels).square().sum().backward()
        optimizer.step()
    net.eval()(pixels)
    del net, optimizer
print("trained")
"""


NETWORKS = [*(("resnet18", width, 16) for width in range(1, 10)), ("efficientnet_lite0", 64, 48)]


def test_a_network_of_any_width_trains_without_avx512() -> None:
    """All in one process: importing torch under these checks takes longer than training them."""
    checked = {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "LD_PRELOAD": "libc_malloc_debug.so.0",  # where there is none, the loader says so and goes on
        "MALLOC_CHECK_": "3",
    }
    ended = subprocess.run(
        [sys.executable, "-c", TRAIN, json.dumps(NETWORKS)],
        env={**os.environ, **checked, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout[-8:]) == (0, "trained\n"), ended.stdout + ended.stderr
