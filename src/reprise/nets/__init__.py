"""Networks for small images and large: a ResNet-18 of any width, whatever timm knows, and two heads."""

from __future__ import annotations

from reprise.nets.build import NETWORKS, Builder, build, fill, from_timm
from reprise.nets.heads import HEADS, CosineHead, LinearHead, make_head
from reprise.nets.network import Network
from reprise.nets.pretrained import Fit, load_checkpoint
from reprise.nets.resnet import ResNet18
from reprise.nets.vit import TimmNetwork

__all__ = [
    "HEADS",
    "NETWORKS",
    "Builder",
    "CosineHead",
    "Fit",
    "LinearHead",
    "Network",
    "ResNet18",
    "TimmNetwork",
    "build",
    "fill",
    "from_timm",
    "load_checkpoint",
    "make_head",
]
