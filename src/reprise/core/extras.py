"""Packages that come with an extra, and what is said where one is missing."""

from __future__ import annotations


class NotInstalled(ModuleNotFoundError):
    """A package that comes with an extra is missing; the message says which, and how to get it."""


def not_installed(need: str, extra: str) -> str:
    """The sentence for a package that is not installed; `need` names it last.

    >>> not_installed("training needs torch", "train")
    "training needs torch, which is not installed; the extra 'train' brings it: pip install '.[train]' in the clone"
    """
    return f"{need}, which is not installed; the extra {extra!r} brings it: pip install '.[{extra}]' in the clone"
