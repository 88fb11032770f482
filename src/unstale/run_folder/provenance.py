"""The origin of a result: commit, command, seeds and hardware.

Everything that writes a result uses this module: run folders, and the scripts in
`experiments/`, `benchmarks/` and `examples/`. A result that is to be committed comes from a
clean commit; `require_clean` refuses others before anything is computed. No path and no host
name of a machine gets into a result.
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from unstale.errors import RunError
from unstale.files import write_whole

if TYPE_CHECKING:
    import torch

COMMIT = "COMMIT"
"""The environment variable that names the commit where git cannot, as in a copy of the tree."""
DIRTY = "-dirty"

# No result depends on these: several results of one commit may be written one after the other.
_UNRELATED = (":(top,exclude,glob)**/results/**", ":(top,exclude,glob)**/*.md")
_HERE = Path(__file__).resolve()


def provenance(seeds: Sequence[int], device: Union["torch.device", str] = "cpu") -> dict[str, Any]:
    """Return what a result file carries about its origin.

    Args:
        seeds: The seeds of the result; empty where nothing is random.
        device: The torch device that computed it.
    """
    return {
        "command": public_command(_command_line()),
        "commit": commit(),
        "seeds": list(seeds),
        "hardware": hardware(device),
    }


def write_result(path: Path, about: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Write a result as JSON: where it is from under `about`, then its content.

    Lists have one item a line, so that files stay small and a change can be read.

    Args:
        path: The file.
        about: What `provenance` returned when the computation began.
        content: The result itself.

    Raises:
        RunError: As `require_clean` does.
        ValueError: If a number is not finite, which is no JSON.
    """
    require_clean(path, about)
    parts = (f"{_json(key)}: {_rows(value)}" for key, value in {"about": about, **content}.items())
    write_whole(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def require_clean(out: Path | None, about: Mapping[str, Any] | None = None) -> None:
    """Refuse to write a result into this repository unless it comes from a clean commit.

    Output outside the repository, or in a folder that git ignores, is scratch and is never
    refused. Call it before computing, so that nothing is computed in vain.

    Args:
        out: Where the result will be written; None is nowhere.
        about: The provenance of a result that exists already; else the tree as it is counts.

    Raises:
        RunError: If the result is meant to be committed and the commit is unknown or dirty.
    """
    if out is None or not _is_committed(out.resolve()):
        return
    found = commit() if about is None else about.get("commit")
    if not found or found.endswith(DIRTY):
        changed = _changes() if about is None and found else []
        changes = f" Changed: {', '.join(changed[:5])}." if changed else ""
        raise RunError(
            f"A result in this repository should come from a clean commit. Found "
            f"{found or 'no commit'}.{changes} Commit first, write outside the repository, or "
            f"name the commit in the environment variable {COMMIT} if git does not know it here."
        )


def commit() -> str | None:
    """Return the commit of the source tree, with `-dirty` if it was changed; None if unknown.

    Changes of result files and of Markdown pages do not count. Where the environment
    variable `COMMIT` is set, it is believed: a copy of the tree has no history of its own.
    """
    if named := os.environ.get(COMMIT):
        return named
    described = _git("describe", "--always", "--exclude=*", "--abbrev=12")
    # Installed into somebody else's repository, its commit would say nothing about us.
    if not described or not _git("ls-files", "--error-unmatch", _HERE.name):
        return None
    return described + (DIRTY if _changes() else "")


def hardware(device: Union["torch.device", str] = "cpu") -> dict[str, Any]:
    """Return the CPU's model, its cores, the threads of torch, the GPU (or None), and torch."""
    import torch  # here, since a report is made without torch

    on_gpu = torch.device(device).type == "cuda"
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "torch": torch.__version__,
    }


def in_words(found: Mapping[str, Any]) -> str:
    """Return hardware in words, for a table's heading.

    Example:
        >>> in_words({"cpu": "x86", "cores": 2, "threads": 1, "gpu": None, "torch": "2.13.0+cpu"})
        'x86, 2 cores, 1 thread, PyTorch 2.13'
    """
    threads = f"{found['threads']} thread{'s' * (found['threads'] != 1)}"
    where = found["gpu"] or f"{found['cpu']}, {found['cores']} cores, {threads}"
    return f"{where}, PyTorch {'.'.join(found['torch'].split('.')[:2])}"


def public_command(words: Sequence[str]) -> str:
    """Return a command line without paths of this machine.

    A path in the repository is written from its root. A path outside becomes the name of its
    option in capitals, or the file's name alone.

    Example:
        >>> public_command(["unstale", "run", "my.toml", "--data", "/home/me/sets", "--jobs", "2"])
        'unstale run my.toml --data DATA --jobs 2'
    """
    found: list[str] = []
    option = ""
    for word in words:
        key, sign, value = word.rpartition("=")
        found.append(key + sign + _public(value, key if sign else option))
        option = word if word.startswith("--") and not sign else ""
    return shlex.join(found)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _rows(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _json(value)
    return "[\n" + ",\n".join(map(_json, value)) + "\n]"


def _public(word: str, option: str) -> str:
    outside = word.startswith(("~", "..")) or Path(word).is_absolute()
    if not outside or not re.search(r"[/\\]", word):
        return word
    path, root = Path(word).expanduser().resolve(), source_root()
    if root is not None and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    named = re.fullmatch(r"[a-z][a-z-]*", option.lstrip("-").rpartition(".")[2])
    return named[0].upper().replace("-", "_") if named else path.name


def source_root() -> Path | None:
    """Return the root of the repository this runs from; None where the package is installed."""
    root = _HERE.parents[3]
    return root if (root / "pyproject.toml").is_file() and _HERE.parents[2].name == "src" else None


def _is_committed(path: Path) -> bool:
    root = source_root()
    if root is None or not path.is_relative_to(root):
        return False
    return not _git("check-ignore", str(path))


def _command_line() -> list[str]:
    script, *options = sys.argv or [""]
    program = ["unstale"] if Path(script).name in ("unstale", "__main__.py") else ["python", script]
    return [*program, *options]


def _changes() -> list[str]:
    lines = _git("status", "--porcelain", "--untracked-files=all", "--", ":/", *_UNRELATED)
    return [line[3:] for line in lines.split("\n")] if lines else []


def _git(*arguments: str) -> str:
    """Return what git says in the source folder; nothing where it fails or is missing."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(_HERE.parent), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.rstrip("\n") if answer.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
