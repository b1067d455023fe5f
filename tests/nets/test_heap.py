"""Training on a CPU writes nowhere but into its own memory, whatever instructions oneDNN may use.

With AVX2 and without AVX-512, oneDNN's backward pass of a strided 1×1 convolution of channels-last images writes past
its memory. That ends the process at once or much later; glibc's checks of the heap make it end at once.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TRAIN = """
import sys
import torch
from reprise.nets import build

net = build(sys.argv[1], classes=10, width=int(sys.argv[2]))
side = int(sys.argv[3])
optimizer = torch.optim.SGD(net.parameters(), lr=0.03)
for size in (32, 8, 1) * 2:
    pixels = torch.rand(size, side, side, 3).permute(0, 3, 1, 2)  # channels last, as training has them
    net(pixels).square().sum().backward()
    optimizer.step()
net.eval()(pixels)
print("trained")
"""


NETWORKS = [*(("resnet18", width, 16) for width in range(1, 10)), ("efficientnet_lite0", 64, 48)]


@pytest.mark.parametrize(("name", "width", "side"), NETWORKS)
def test_a_network_of_any_width_trains_without_avx512(name: str, width: int, side: int) -> None:
    checked = {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "LD_PRELOAD": "libc_malloc_debug.so.0",  # where there is none, the loader says so and goes on
        "MALLOC_CHECK_": "3",
    }
    ended = subprocess.run(
        [sys.executable, "-c", TRAIN, name, str(width), str(side)],
        env={**os.environ, **checked, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "trained\n"), ended.stderr
