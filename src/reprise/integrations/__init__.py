"""Replay for the loops of other libraries; each module needs its extra."""
