"""An extension of Griffe, which reads signatures for the site: defaults are shown as a reader would write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

PRIVATE = re.compile(r"(?<![\w'\"])_[A-Za-z]\w*")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
EMPTY = {"dict": "{}", "list": "[]", "tuple": "()"}


class ReadableDefaults(griffe.Extension):
    """Shows what a field or a parameter is by default, without names of ours.

    `field(default_factory=dict)` is `{}`, and `field(compare=False)` has no default. A constant is replaced by its
    value, and what only code can tell is `...`, as it is in stubs.
    """

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        value = attr.value
        if isinstance(value, griffe.ExprCall) and value.canonical_path == "dataclasses.field":
            given = {one.name: one.value for one in value.arguments if isinstance(one, griffe.ExprKeyword)}
            if not given.keys() & {"init", "kw_only"}:  # of these, too, the parameters of a class are made
                attr.value = shown(given)
        elif attr.parent is not None and attr.parent.is_module and not attr.name.startswith("_"):
            attr.value = None if PRIVATE.search(str(value)) else value

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        for one in members(pkg):
            if isinstance(one, griffe.Function):
                for parameter in one.parameters:
                    parameter.default = resolved(pkg, parameter.default)
            elif one.parent is not None and one.parent.is_class:
                one.value = resolved(pkg, one.value)


def members(owner: griffe.Module | griffe.Class) -> Iterator[griffe.Function | griffe.Attribute]:
    """All functions, methods and attributes of a package."""
    for member in owner.members.values():
        if isinstance(member, (griffe.Function, griffe.Attribute)):
            yield member
        elif isinstance(member, (griffe.Module, griffe.Class)):
            yield from members(member)


def resolved(pkg: griffe.Module, default: Any) -> Any:
    """The value of a constant of this package; everything else as it is."""
    if not isinstance(default, griffe.ExprName) or not CONSTANT.fullmatch(default.name):
        return default
    try:
        value = pkg[default.canonical_path.removeprefix(f"{pkg.path}.")].value
    except (KeyError, AttributeError):
        return "..."
    return "..." if PRIVATE.search(str(value)) else value


def shown(field: dict[str, Any]) -> Any:
    """The default of a dataclass's field by the arguments of `field`; None where it has none."""
    if "default" in field:
        return field["default"]
    factory = str(field.get("default_factory", ""))
    if not factory:
        return None
    return EMPTY.get(factory, f"{factory}()" if re.fullmatch(r"[A-Za-z][\w.]*", factory) else "...")
