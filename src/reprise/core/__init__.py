"""What everything else stands on: random numbers, files, processes, argument checks, and names of things."""
