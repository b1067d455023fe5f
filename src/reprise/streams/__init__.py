"""Where examples come from: the order in which a learner meets a data set, known from labels alone.

A stream iterates arrays of example ids, one array per training step. It needs no images: class sizes are
enough to say which examples arrive at which step.

`label_stream` builds a named stream, `from_labels` one over any array of labels, in an order it chooses. `in_order`
takes the order that labels stand in, and `from_batches` takes batches of example ids.
"""

from __future__ import annotations

from .build import from_labels, label_stream
from .datasets import DATASETS, Dataset, find_dataset
from .folder import ImageFolder, list_folder
from .in_order import OrderedStream, from_batches, in_order
from .longtail import tail_counts
from .options import StreamOptions
from .still import StillStream
from .stream import LabelStream

__all__ = [
    "DATASETS",
    "Dataset",
    "ImageFolder",
    "LabelStream",
    "OrderedStream",
    "StillStream",
    "StreamOptions",
    "find_dataset",
    "from_batches",
    "from_labels",
    "in_order",
    "label_stream",
    "list_folder",
    "tail_counts",
]
