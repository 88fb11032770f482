"""Reading untrusted .npz archives, without unpickling and with a limit on their size."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.data.faults import damaged

MAX_BYTES = 2**31
"""Maximum unpacked size of one array, against zip bombs."""


def read_npz(path: Path, *keys: str) -> tuple[NDArray[Any], ...]:
    """Return the arrays of an archive under `keys`, in that order.

    Raises:
        DataError: If the file is not such an archive, lacks an array, or holds Python
            objects, which would have to be unpickled.
    """
    should = f"be an .npz archive of plain arrays with {', '.join(keys)}"
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        for key in keys:
            if sizes.get(f"{key}.npy", 0) > MAX_BYTES:
                raise damaged(path, should, f"{key} with {sizes[f'{key}.npy']} bytes")
        with np.load(path, allow_pickle=False) as archive:
            return tuple(np.asarray(archive[key]) for key in keys)
    except KeyError as error:
        raise damaged(path, should, f"only {', '.join(sorted(sizes)) or 'nothing'}") from error
    # A header that claims more elements than there are bytes ends in MemoryError.
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, MemoryError) as error:
        raise damaged(path, should, f"{type(error).__name__}: {error}") from error
