"""Attacks: what a server that sees a client's update could compute of its data."""

from unstale.audit.attacks.conversion import Converted, converted_surrogates
from unstale.audit.attacks.gradient_matching import Matching, Recovered, match_gradients
from unstale.audit.attacks.last_layer import (
    LastLayer,
    label_counts,
    label_overlap,
    labels_of_counts,
    last_layer,
    single_label,
    step_size,
)
from unstale.audit.attacks.single_sample import recover_singles
from unstale.audit.attacks.surrogate_extension import extend_surrogates

__all__ = [
    "Converted",
    "LastLayer",
    "Matching",
    "Recovered",
    "converted_surrogates",
    "extend_surrogates",
    "label_counts",
    "label_overlap",
    "labels_of_counts",
    "last_layer",
    "match_gradients",
    "recover_singles",
    "single_label",
    "step_size",
]
