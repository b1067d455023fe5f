"""Short names for policies: the grammar of `"rpr"`, `"reused:4"`, `"rpr+pass"`, and who answers to them.

A spec is `name`, `name:argument`, and for a schedule either of these with `+pass`. Policies register
themselves with `@register(kind, name, ...)`; so can anybody else's.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

KINDS = ("storage", "schedule", "retrieval")


class Policy:
    """A policy is its constructor arguments; repr, equality, spec and fresh copies follow from them.

    Keep every constructor argument under an attribute of the same name. What a policy learns while it works
    is apart from that: it is made by `start` and saved by `state_dict`.
    """

    def arguments(self) -> dict[str, Any]:
        """The constructor arguments that make this policy."""
        names = _parameters(type(self))  # type: ignore[arg-type]
        for name in names:
            if not hasattr(self, name):
                raise TypeError(
                    f"{type(self).__name__} must keep its argument {name!r} under an attribute of that name"
                )
        return {name: getattr(self, name) for name in names}

    @property
    def spec(self) -> str:
        """The short name that makes this policy, or its repr if its class is not registered."""
        for entry in _REGISTRY.values():
            if entry.policy is type(self):
                return entry.format(self.arguments())
        return repr(self)

    def fresh(self) -> Self:
        """A new policy of the same arguments that has not begun to work."""
        return type(self)(**self.arguments())

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.arguments().items())
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.arguments() == other.arguments()

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.arguments().items())))


@cache
def _parameters(policy: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(policy).parameters)


@dataclass(frozen=True)
class _Entry:
    kind: str
    name: str
    policy: Callable[..., Policy]
    read: Callable[[str], Any] | None
    letter: str
    optional: bool

    @property
    def form(self) -> str:
        if self.read is None:
            return self.name
        return f"{self.name}[:{self.letter}]" if self.optional else f"{self.name}:{self.letter}"

    def format(self, arguments: dict[str, Any]) -> str:
        values = [value for value in arguments.values() if value is not None]
        return ":".join([self.name, *map(_plain, values)])

    def make(self, argument: str | None, text: str) -> Policy:
        if argument is None:
            if self.read is not None and not self.optional:
                raise ValueError(f"{text!r} lacks its argument: write {self.form!r}")
            return self.policy()
        if self.read is None:
            raise ValueError(f"{self.name!r} takes no argument, got {text!r}")
        try:
            value = self.read(argument)
        except ValueError:
            kind = "a whole number" if self.read is int else "a number"
            raise ValueError(f"the {self.letter} of {self.form!r} must be {kind}, got {argument!r}") from None
        return self.policy(value)


_REGISTRY: dict[tuple[str, str], _Entry] = {}
P = TypeVar("P", bound=type[Policy])


def register(
    kind: str, name: str, *, argument: Callable[[str], Any] | None = None, letter: str = "N", optional: bool = False
) -> Callable[[P], P]:
    """Let a policy class answer to `name` (or `name:argument`, read by `argument`) as a policy of `kind`."""
    if kind not in KINDS:
        raise ValueError(f"a policy is one of {', '.join(KINDS)}, got {kind!r}")

    def add(policy: P) -> P:
        known = _REGISTRY.get((kind, name))
        if known is not None and known.policy.__qualname__ != policy.__qualname__:
            raise ValueError(f"the {kind} {name!r} is already {known.policy.__name__}")
        _REGISTRY[kind, name] = _Entry(kind, name, policy, argument, letter, optional)
        return policy

    return add


def registered(kind: str) -> dict[str, Callable[..., Policy]]:
    """All policies of a kind, by name, in order of registration."""
    return {entry.name: entry.policy for entry in _REGISTRY.values() if entry.kind == kind}


def forms(*kinds: str) -> list[str]:
    """The specs one may write for these kinds, sorted: `fixed`, `reused:K`, …"""
    return sorted(entry.form for entry in _REGISTRY.values() if entry.kind in kinds)


def parse(text: str, *kinds: str) -> tuple[Policy, bool]:
    """Make the policy that a spec names, and say whether `+pass` follows it."""
    body, plus, modifier = text.strip().partition("+")
    name, colon, argument = body.partition(":")
    if plus and (modifier != "pass" or "schedule" not in kinds):
        raise ValueError(f"unknown ending {'+' + modifier!r} in {text!r}: only '+pass', after a schedule")
    for kind in kinds:
        entry = _REGISTRY.get((kind, name))
        if entry is not None:
            if plus and kind != "schedule":
                raise ValueError(f"'+pass' goes with a schedule; {name!r} is not one")
            return entry.make(argument if colon else None, body), bool(plus)
    raise ValueError(f"unknown {kinds[-1]} {text!r}{_hint(name, kinds)} Known: {', '.join(forms(*kinds))}")


def _hint(name: str, kinds: tuple[str, ...]) -> str:
    names = [entry.name for entry in _REGISTRY.values() if entry.kind in kinds]
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.0)
    return f": did you mean {near[0]!r}?" if near else "."


def _plain(value: Any) -> str:
    text = str(value).replace("e+", "e")  # a plus begins an ending
    return text[:-2] if text.endswith(".0") else text
