"""Every Python block of the documentation runs, and prints what the page shows.

The blocks of one page share a namespace and run in a folder of their own. A comment
`<!-- not run: reason -->` before a block leaves it out.
"""

import contextlib
import io
import sys
import types
import warnings

import pytest
from doc_pages import PAGES, ROOT, blocks_of, read


def run_page(path, text):
    """Run the blocks of a page one after the other; return what was left out, and why."""
    module = types.ModuleType(f"page_{path.stem}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    left_out = []
    try:
        for block in blocks_of(text):
            if block.language != "python":
                continue
            if block.not_run:
                left_out.append(block.not_run)
                continue
            # Lines are counted as on the page, so that a traceback points into it.
            code = compile("\n" * (block.line - 1) + block.body, str(path), "exec")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, module.__dict__)  # noqa: S102
            if block.output is not None:
                assert printed.getvalue().rstrip() == block.output.rstrip(), (
                    f"{path.name}, line {block.line}"
                )
    finally:
        del sys.modules[module.__name__]
    return left_out


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_page(path, read(path))


PAGE = """
```python
x = 20
```

<!-- not run: it would not -->
```python
raise SystemExit
```

Between.

```python
print(x + 1)
```

```text
{shown}
```
"""


def test_blocks_share_a_namespace_and_outputs_are_compared(tmp_path):
    assert run_page(tmp_path / "a.md", PAGE.format(shown="21")) == ["it would not"]
    with pytest.raises(AssertionError, match=r"a\.md, line 14"):
        run_page(tmp_path / "a.md", PAGE.format(shown="22"))


def test_a_block_that_fails_is_found_at_its_line(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(tmp_path / "b.md", "# Title\n\n```python\nx = 1\nx / 0\n```\n")
    assert caught.traceback[-1].lineno + 1 == 5


def test_a_reason_counts_for_its_own_block_only():
    first, second = blocks_of("<!-- not run: a -->\n```python\n1\n```\n\n```python\n2\n```\n")
    assert (first.not_run, second.not_run) == ("a", "")


def test_the_pages_are_found():
    names = {path.name for path in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "index.md", "server.md"} <= names
