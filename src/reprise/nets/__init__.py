"""Networks for small images and large: ResNet-18 of any width, EfficientNet-lite, whatever timm knows; two heads."""

from __future__ import annotations

from reprise.core.registry import register
from reprise.nets.build import NETWORKS, Builder, build, from_timm, lacking, takes_width
from reprise.nets.efficientnet import EfficientNetLite
from reprise.nets.heads import HEADS, CosineHead, LinearHead, make_head
from reprise.nets.initial import fill
from reprise.nets.network import Network, batch_norms
from reprise.nets.pretrained import Fit, load_checkpoint
from reprise.nets.resnet import ResNet18
from reprise.nets.vit import TimmNetwork

__all__ = [
    "HEADS",
    "NETWORKS",
    "Builder",
    "CosineHead",
    "EfficientNetLite",
    "Fit",
    "LinearHead",
    "Network",
    "ResNet18",
    "TimmNetwork",
    "batch_norms",
    "build",
    "fill",
    "from_timm",
    "lacking",
    "load_checkpoint",
    "make_head",
    "register",
    "takes_width",
]
