"""Many runs at once on one GPU, on lanes: captured steps that play planned tapes and need nothing from the host.

`driver` keeps lanes busy, `engine` holds all that needs Triton. `reprise.execute` uses it for runs on a GPU.
"""
