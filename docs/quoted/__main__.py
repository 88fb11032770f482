"""Compare the figures of pages with result files: `python docs/quoted [--write] [PAGE ...]`."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from quoted.check import pages, problems_of, rewritten


def main() -> int:
    """Print what does not hold; with `--write`, write first what functions make."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="all if none is named")
    parser.add_argument("--write", action="store_true", help="write blocks and figures anew")
    options = parser.parse_args()
    found = []
    for page in [path.resolve() for path in options.pages] or pages():
        if options.write:
            before = page.read_text(encoding="utf-8")
            after = rewritten(before, page.parent)
            if after != before:
                page.write_text(after, encoding="utf-8")
        found += problems_of(page)
    for problem in found:
        print(problem)
    print(f"{len(found)} problems" if found else "Every figure has its source.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
