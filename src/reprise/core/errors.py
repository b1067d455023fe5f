"""What an error says, where somebody reads it as a part of a sentence."""

from __future__ import annotations


def reason(error: BaseException) -> str:
    """What an error says of itself; its kind, if it says nothing.

    >>> reason(ValueError("it is too large")), reason(ValueError())
    ('it is too large', 'ValueError')
    """
    return str(error) or type(error).__name__


def full_reason(error: BaseException) -> str:
    """The error's kind, and what it says of itself, if it says anything.

    >>> full_reason(ValueError("it is too large")), full_reason(ValueError())
    ('ValueError: it is too large', 'ValueError')
    """
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
