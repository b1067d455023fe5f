"""A folder of images with one sub-folder per class: counted, never decoded."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ImageFolder:
    """The classes of a folder and the files of each; class c is `classes[c]`, ids go class by class in file order."""

    path: str
    classes: tuple[str, ...]
    files: tuple[tuple[str, ...], ...]

    @property
    def sizes(self) -> list[int]:
        """How many files each class has."""
        return [len(names) for names in self.files]


def list_folder(path: str) -> ImageFolder:
    """List a folder's classes and files, both sorted by name so that ids are the same on every machine.

    Names that begin with a dot are left out, and so are files beside the class folders.
    """
    root = os.path.expanduser(path)
    if os.path.isfile(root):
        raise ValueError(f"{path!r} is a file; a data set is a known name, or a folder of class folders")
    if not os.path.isdir(root):
        raise ValueError(f"there is no folder {path!r}; a data set is a known name, or a folder of class folders")
    classes = _visible(root, folders=True)
    if not classes:
        raise ValueError(f"folder {path!r} has no sub-folders; it needs one sub-folder per class")
    files = tuple(_visible(os.path.join(root, name), folders=False) for name in classes)
    for name, listed in zip(classes, files, strict=True):
        if not listed:
            raise ValueError(f"class folder {name!r} of {path!r} has no files; every class needs at least one")
    return ImageFolder(path, classes, files)


def _visible(root: str, *, folders: bool) -> tuple[str, ...]:
    with os.scandir(root) as entries:
        wanted = [
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and (entry.is_dir() if folders else entry.is_file())
        ]
    return tuple(sorted(wanted))
