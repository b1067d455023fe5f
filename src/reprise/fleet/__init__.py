"""Many runs at once: a list of configurations in, a record out for each as it ends.

On a GPU, runs that share a network, a learner and a data set play their tapes on lanes: captured steps that need
nothing from the host. On a CPU, runs go to processes, one to a core. What cannot be captured runs in the plain loop.
The records are of the same form whichever way a run went.
"""

from reprise.fleet.fleet import Progress, RunOutcome, fleet

__all__ = ["Progress", "RunOutcome", "fleet"]
