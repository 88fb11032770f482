"""In which settings two resolved configs differ."""

from typing import Any


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Return the dotted keys in which two configs differ; lists and tuples are not told apart.

    Example:
        >>> differences({"local": {"lr": 0.1}, "seeds": [1]}, {"local": {"lr": 0.2}, "seeds": (1,)})
        ['local.lr']
    """
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted({*a, *b})
        return [d for k in keys for d in differences(a.get(k), b.get(k), f"{where}.{k}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return [d for i, (x, y) in pairs for d in differences(x, y, f"{where}.{i}")]
    return [] if a == b else [where.lstrip(".")]
