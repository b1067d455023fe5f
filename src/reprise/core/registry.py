"""Names, and who answers to them: one registry for policies, learners, networks, data sets and trackers.

Everything registers itself by `@register(kind, name)`, what comes with the library and what does not alike. A name that
is not known is looked for in installed packages as well, before an error names the nearest.

Policies are made by specs, `"rpr"`, `"reused:4"`, `"rpr+pass"`: a spec is `name`, `name:argument`, and for a schedule
either of these with `+pass`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from reprise.core.plugins import load_entry_points

if TYPE_CHECKING:
    from typing_extensions import Self

POLICIES = ("storage", "schedule", "retrieval")
KINDS = (*POLICIES, "learner", "network", "dataset", "tracker")
_WORDS = {"dataset": "data set"}


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
            if entry.value is type(self):
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
    value: Any
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
        made: Policy
        if argument is None:
            if self.read is not None and not self.optional:
                raise ValueError(f"{text!r} lacks its argument: write {self.form!r}")
            made = self.value()
            return made
        if self.read is None:
            raise ValueError(f"{self.name!r} takes no argument, got {text!r}")
        try:
            value = self.read(argument)
        except ValueError:
            kind = "a whole number" if self.read is int else "a number"
            raise ValueError(f"the {self.letter} of {self.form!r} must be {kind}, got {argument!r}") from None
        made = self.value(value)
        return made


_REGISTRY: dict[tuple[str, str], _Entry] = {}
V = TypeVar("V")


def register(
    kind: str, name: str, *, argument: Callable[[str], Any] | None = None, letter: str = "N", optional: bool = False
) -> Callable[[V], V]:
    """Let something answer to `name` as one of `kind`; a policy also to `name:argument`, read by `argument`.

    A policy, a learner and a tracker are classes, a network is a function that builds it, a data set one that loads it.
    """
    if kind not in KINDS:
        raise ValueError(f"a kind is one of {', '.join(KINDS)}, got {kind!r}")
    if argument is not None and kind not in POLICIES:
        raise ValueError(f"an argument goes with a {', '.join(POLICIES[:-1])} or {POLICIES[-1]}, not with a {kind}")

    def add(value: V) -> V:
        known = _REGISTRY.get((kind, name))
        if known is not None and not _again(known.value, value):
            word = _WORDS.get(kind, kind)
            raise ValueError(f"the {word} {name!r} is already {getattr(known.value, '__name__', known.value)}")
        _REGISTRY[kind, name] = _Entry(kind, name, value, argument, letter, optional)
        return value

    return add


def _again(known: Any, value: Any) -> bool:
    """Whether a thing is read a second time, as in a notebook. Nobody replaces what comes with the library."""
    names = {(getattr(item, "__module__", ""), getattr(item, "__qualname__", repr(item))) for item in (known, value)}
    return len(names) == 1


def registered(kind: str) -> dict[str, Any]:
    """All of a kind, by name, in order of registration, those of installed packages included."""
    load_entry_points()
    return {entry.name: entry.value for entry in _REGISTRY.values() if entry.kind == kind}


def find(kind: str, name: str) -> Any:
    """What answers to this name as one of `kind`, or an error that names the nearest.

    >>> find("storage", "fif")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown storage 'fif': did you mean 'fifo'? Known: ...
    """
    entry = _entry(name, kind)
    if entry is None:
        raise ValueError(unknown(_WORDS.get(kind, kind), name, registered(kind)))
    return entry.value


def _entry(name: str, *kinds: str) -> _Entry | None:
    for look_further in (True, False):
        for kind in kinds:
            if (kind, name) in _REGISTRY:
                return _REGISTRY[kind, name]
        if look_further:
            load_entry_points()
    return None


class Registered(Mapping[str, V]):
    """All of a kind by name, as it is now: a view that cannot be written to."""

    def __init__(self, kind: str, read: Callable[[str, Any], V] | None = None) -> None:
        self._kind, self._read = kind, read

    def __getitem__(self, name: str) -> V:
        entry = _entry(name, self._kind)
        if entry is None:
            raise KeyError(name)
        found: V = entry.value if self._read is None else self._read(name, entry.value)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(registered(self._kind))

    def __len__(self) -> int:
        return len(registered(self._kind))

    def __repr__(self) -> str:
        return f"<{_WORDS.get(self._kind, self._kind)}s: {', '.join(self)}>"


def forms(*kinds: str) -> list[str]:
    """The specs one may write for these kinds, sorted: `fixed`, `reused:K`, …"""
    load_entry_points()
    return sorted(entry.form for entry in _REGISTRY.values() if entry.kind in kinds)


def parse(text: str, *kinds: str) -> tuple[Policy, bool]:
    """Make the policy that a spec names, and say whether `+pass` follows it."""
    body, plus, modifier = text.strip().partition("+")
    name, colon, argument = body.partition(":")
    if plus and (modifier != "pass" or "schedule" not in kinds):
        raise ValueError(f"unknown ending {'+' + modifier!r} in {text!r}: only '+pass', after a schedule")
    entry = _entry(name, *kinds)
    if entry is None:
        near = did_you_mean(name, [known for kind in kinds for known in registered(kind)])
        raise ValueError(unknown(kinds[-1], text, forms(*kinds), near=near))
    if plus and entry.kind != "schedule":
        raise ValueError(f"'+pass' goes with a schedule; {name!r} is not one")
    return entry.make(argument if colon else None, body), bool(plus)


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """The known name that is nearest to this one, if one is near at all.

    >>> did_you_mean("ER_ACE", ["er", "er-ace"]), did_you_mean("mnist", ["cifar10"])
    ('er-ace', None)
    """
    return next(iter(difflib.get_close_matches(str(name).lower(), known, n=1)), None)


def unknown(what: str, name: object, known: Iterable[str], *, near: str | None = None, lead: str = "Known:") -> str:
    """The sentence for a name that nothing answers to.

    >>> unknown("learner", "era", ["er", "der"])
    "unknown learner 'era': did you mean 'er'? Known: er, der"
    """
    names = list(known)
    near = near or did_you_mean(name, names)
    hint = "." if near is None else f": did you mean {near!r}?"
    return f"unknown {what} {name!r}{hint} {lead} {', '.join(names)}"


def _plain(value: Any) -> str:
    text = str(value).replace("e+", "e")  # a plus begins an ending
    return text[:-2] if text.endswith(".0") else text
