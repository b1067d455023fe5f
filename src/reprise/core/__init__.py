"""What everything else stands on: random numbers, files, processes, argument checks, and names of things.

What every extension needs, whatever it extends, is here by name; the rest is for the library itself.
"""

from reprise.core.arguments import as_int
from reprise.core.extras import NotInstalled
from reprise.core.plugins import load_modules, loaded_modules
from reprise.core.registry import Policy, register, registered
from reprise.core.rng import Random

__all__ = [
    "NotInstalled",
    "Policy",
    "Random",
    "as_int",
    "load_modules",
    "loaded_modules",
    "register",
    "registered",
]
