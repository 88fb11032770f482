"""Privacy: what leaves a device, what is guaranteed about it, and what the server keeps of it.

- `protection.py`: `Protection`, what a client does to its update before it sends it.
- `accounting.py`: (ε, δ) of a client's updates, by dp-accounting.
- `storage.py`: `Storage`, what the server writes to the disk of single clients.
- `sealing.py`: encryption of what it writes.
"""

from unstale.privacy.accounting import Spent, require_accountant, spent
from unstale.privacy.protection import Protection, protect
from unstale.privacy.sealing import Seal
from unstale.privacy.storage import Storage

__all__ = ["Protection", "Seal", "Spent", "Storage", "protect", "require_accountant", "spent"]
