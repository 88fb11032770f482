"""Protection of clients' updates in words, as the terminal and the report page show it."""

from collections.abc import Iterator, Mapping
from typing import Any

from unstale.run_folder.schema.checked import mapping, number


def protection_in_words(settings: Mapping[str, Any]) -> str:
    """Return what clients did to their updates before they sent them; empty if nothing.

    Args:
        settings: The table `protection` of a config.

    Example:
        >>> protection_in_words({"sparsity": 0.95, "noise_variance": 0.001})
        '95 % of entries left out, noise of variance 0.001'
    """
    return ", ".join(_parts(settings))


def _parts(settings: Mapping[str, Any]) -> Iterator[str]:
    found = {key: number(settings.get(key), f"protection.{key}") for key in _KEYS}
    if share := found["sparsity"]:
        yield f"{100 * share:g} % of entries left out"
    if clip := found["clip"]:
        yield f"clipped to norm {clip:g}"
    if variance := found["noise_variance"]:
        yield f"noise of variance {variance:g}"
    if multiplier := found["noise_multiplier"]:
        yield f"noise of {multiplier:g} times that norm"


_KEYS = ("sparsity", "clip", "noise_variance", "noise_multiplier")


def spent_in_words(privacy: Mapping[str, Any]) -> str:
    """Return ε of every method in one sentence; empty if updates are not differentially private.

    Args:
        privacy: The part `privacy` of a summary.

    Example:
        >>> methods = {"convert": {"updates": 5, "epsilon": 12.34}}
        >>> spent_in_words({"methods": methods, "delta": 1e-5, "assumed": "for one client"})
        'ε at δ = 1e-05: convert 12.3 after 5 updates; for one client.'
    """
    methods = mapping(privacy.get("methods"), "privacy.methods")
    told = []
    for label, of in methods.items():
        fields = mapping(of, label)
        epsilon = number(fields.get("epsilon"), "epsilon")
        updates = number(fields.get("updates"), "updates") or 0
        if epsilon is not None:
            plural = "" if updates == 1 else "s"
            told.append(f"{label} {epsilon:.3g} after {updates:.0f} update{plural}")
    if not told:
        return ""
    delta = number(privacy.get("delta"), "delta") or 0.0
    return f"ε at δ = {delta:g}: {', '.join(told)}; {privacy.get('assumed', '')}."
