"""What is raised when a data set's files are missing or damaged."""

from __future__ import annotations


class DataError(RuntimeError):
    """A data set's files are missing or damaged; the sentence names the file and says where to get it."""
