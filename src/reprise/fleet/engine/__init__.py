"""The GPU engine: kernels, networks computed together, and lanes. It needs Triton, which comes with torch for a GPU."""
