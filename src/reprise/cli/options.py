"""The settings of a run as options of a command, made from its description: a value, or several for several runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, make_dataclass
from itertools import product
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, arg

from reprise.core.arguments import as_int
from reprise.runs.run import SECTIONS, Run, flat_names
from reprise.runs.settings import Section, Setting, options, setting_of


def run_options(name: str, sections: Iterable[str], leave_out: Iterable[str] = ()) -> type:
    """A dataclass with an option for every setting of these sections; what is not given is None."""
    hidden = set(leave_out)
    fields_made: list[tuple[str, Any, Any]] = []
    for section in sections:
        for option, one in options(SECTIONS[section]):
            if option not in hidden:
                about = setting_of(one)
                fields_made.append((option, _annotated(about, one.default), field(default=_unset(about))))
    return make_dataclass(name, fields_made, frozen=True, kw_only=True)


def _unset(declared: Setting) -> Any:
    return False if declared.kind is bool else None


def _annotated(declared: Setting, default: Any) -> Any:
    if declared.kind is bool:
        return Annotated[bool, FlagCreatePairsOff, arg(help=declared.help, help_behavior_hint="")]
    usual = declared.unset if default is None or not isinstance(default, (str, int, float)) else f"{default}"
    hint = f"(default: {usual.removesuffix('.0')})" if usual else ""
    return Annotated[
        str | None, arg(help=declared.help, metavar=declared.metavar, constructor=str, help_behavior_hint=hint)
    ]


def given_settings(command: Any) -> dict[str, Any]:
    """What was given on the command line: by option, a list of values where several were given."""
    found: dict[str, Any] = {}
    for option, (section, name) in flat_names().items():
        value = getattr(command, option, None)
        if value is None or value is False:
            continue
        about = declared(SECTIONS[section], name)
        found[option] = value if about.kind is bool else read_values(value, option, about)
    return found


def declared(section: type[Section], name: str) -> Setting:
    """What is declared of a setting."""
    return next(setting_of(one) for _, one in options(section) if one.name == name)


def read_values(text: str, option: str, declared: Setting) -> Any:
    """The value of an option, or the list of values where commas separate several.

    >>> from reprise.runs.settings import MemorySettings
    >>> read_values("200,500", "buffer", declared(MemorySettings, "buffer"))
    [200, 500]
    """
    if declared.kind is Mapping:
        return read_hyper(text)
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError(f"{flag_name(option)} takes values separated by single commas, got {text!r}")
    values = [_read(item, flag_name(option), declared) for item in dict.fromkeys(items)]
    return values if len(values) > 1 else values[0]


def _read(text: str, option: str, declared: Setting) -> Any:
    if declared.kind is str:
        return text
    try:
        number = declared.kind(text)
    except ValueError:
        kind = "a whole number" if declared.kind is int else "a number"
        raise ValueError(f"{option} must be {kind}, got {text!r}") from None
    return declared.check(number, option)


def flag_name(option: str) -> str:
    """How an option is typed."""
    return f"--{option.replace('_', '-')}"


def read_seeds(text: str) -> list[int]:
    """Seeds from text: how many, or which, as numbers and ranges separated by commas.

    >>> read_seeds("3"), read_seeds("0-3,7")
    ([0, 1, 2], [0, 1, 2, 3, 7])
    """
    if text.strip().isdecimal():
        return list(range(as_int(int(text), "--seeds", 1)))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (item.strip() for item in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"--seeds takes a number of seeds, or ranges such as 0-9 or 0,2,5-7, got {text!r}")
        if dash and int(last) < int(first):
            raise ValueError(f"--seeds: a range goes up, got {part.strip()!r}")
        found += range(int(first), int(last if dash else first) + 1)
    return list(dict.fromkeys(found))


def check_counts(**given: int | None) -> None:
    """Processes, lanes and other numbers that are 1 or more if they are given, by the names of their options."""
    for option, value in given.items():
        if value is not None:
            as_int(value, f"--{option}", 1)


def read_time(text: str, option: str) -> float:
    """Seconds from text: a number of them, or hours, minutes and seconds.

    >>> read_time("540", "--time-limit"), read_time("1.5m", "--time-limit"), read_time("1h30m", "--time-limit")
    (540.0, 90.0, 5400.0)
    """
    number = r"\d+(?:\.\d+)?"
    given = f"{text.strip()}s" if re.fullmatch(number, text.strip()) else text.strip()
    found = re.fullmatch(rf"(?:({number})h)?(?:({number})m)?(?:({number})s)?", given)
    if found is None or not given:
        raise ValueError(f"{option} takes a time as 540, 90s, 15m or 1h30m, got {text!r}")
    seconds = sum(float(part or 0) * size for part, size in zip(found.groups(), (3600, 60, 1), strict=True))
    if seconds == math.inf:
        raise ValueError(f"{option} must be finite, got {text!r}")
    return seconds


def go_on(time_limit: float | None) -> str:
    """How runs that were not begun are made, in words."""
    if time_limit == 0:
        return "the same command without --time-limit 0 makes the rest"
    return "the same command goes on with the rest"


def choices(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values given, the last setting's varying first."""
    several = {option: value if isinstance(value, list) else [value] for option, value in settings.items()}
    return [dict(zip(several, chosen, strict=True)) for chosen in product(*several.values())]


def combinations(settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Run]:
    """A run for every combination of the values given, seeds innermost."""
    return [Run.of(**chosen, seed=seed) for chosen in choices(settings) for seed in seeds]


def read_hyper(text: str) -> dict[str, float | int | str]:
    """Hyper-parameters from text, numbers as numbers.

    >>> read_hyper("alpha=0.3,refresh=5000,mask=present")
    {'alpha': 0.3, 'refresh': 5000, 'mask': 'present'}
    """
    found: dict[str, float | int | str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise ValueError(f"--hyper takes name=value, several separated by commas, got {text!r}")
        if name in found:
            raise ValueError(f"--hyper gives {name!r} twice, got {text!r}")
        found[name] = _value(name, value)
    return found


def _value(name: str, text: str) -> float | int | str:
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        if not math.isfinite(value):
            raise ValueError(f"--hyper {name} must be finite, got {text}")
        return value
    return text
