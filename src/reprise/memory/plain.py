"""The states of policies in plain values, so that JSON, `torch.load` and pickle all give them back as they were.

JSON turns the key 3 into "3" and knows no arrays; `torch.load` refuses NumPy's. So a dict with other keys than strings
is written as pairs, and an array as a list with its dtype and shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_PAIRS, _ARRAY = "$pairs", "$array"
_KINDS = "biufU"  # arrays of numbers and strings


def plain(value: Any) -> Any:
    """A copy of a policy's state in numbers, strings, lists, tuples, and dicts with strings as keys."""
    if type(value) is int:
        return value
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not {_PAIRS, _ARRAY} & value.keys():
            return {key: plain(one) for key, one in value.items()}
        return {_PAIRS: [[plain(key), plain(one)] for key, one in value.items()]}
    if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        return {_ARRAY: value.ravel().tolist(), "dtype": value.dtype.str, "shape": list(value.shape)}
    return value.item() if isinstance(value, np.generic) else value


def original(value: Any) -> Any:
    """The state that `plain` was given, in values of its own."""
    if type(value) is int:
        return value
    if isinstance(value, list):
        return [original(one) for one in value]
    if isinstance(value, tuple):
        return tuple(original(one) for one in value)
    if isinstance(value, dict):
        if _PAIRS in value:
            return {_key(original(key)): original(one) for key, one in value[_PAIRS]}
        if _ARRAY in value:
            return np.array(value[_ARRAY], value["dtype"]).reshape(value["shape"])
        return {key: original(one) for key, one in value.items()}
    return value


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if isinstance(key, list) else key  # JSON knows no tuples
