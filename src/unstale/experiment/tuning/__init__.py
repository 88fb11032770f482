"""Tuning: each method's settings, chosen on seeds that no table reports.

Every method that lists values for its settings (`tune` in its table) may try equally many of
them, on the same seeds. A stated criterion chooses, what was tried is recorded, and the
experiment then runs on its own seeds with what was chosen.
"""
