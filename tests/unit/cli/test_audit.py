import json

import pytest

QUICK = (
    "audit", "--sizes", "2", "--attacked", "2", "--clients", "4", "--updates", "1",
    "--set", "local.epochs=1", "--set", "methods.convert.inversion.iterations=20",
)  # fmt: skip


def test_json_and_the_page(unstale, tmp_path):
    result = unstale(*QUICK, "--seed", "3", "--json", "--out", "pages/audit.html")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert (found["attacked"], found["clients"], found["updates"]) == (2, 4, 1)
    assert [size["samples"] for size in found["sizes"]] == [2]
    assert found["verdicts"][0]["shows"]
    assert found["page"] == "pages/audit.html"
    assert "data:image/png" in (tmp_path / "pages/audit.html").read_text(encoding="utf-8")


def test_the_table_and_no_file_unless_asked_for(unstale, tmp_path):
    result = unstale(*QUICK, "--set", "protection.sparsity=0.9")
    assert (result.code, result.err) == (0, "")
    assert "protected: 90 % left out" in result.out
    assert "held-out sample" in result.out
    assert "--out audit.html" in result.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sizes", "1;2"), "--sizes should be numbers"),
        (("--sizes", "0"), "positive integers"),
        (("--sizes", "5000"), "at most 40"),
        (("--attacked", "0"), "at least one attacked client"),
        (("--clients", "3"), "more clients than those"),
        (("--set", "protection.sparsity=1"), "should be in [0, 1)"),
        (("--out", "audit.txt"), "ends in .html"),
        (("--lpips", "nowhere.npz"), "There is none at nowhere.npz"),
        (("--method", "weighted"), "should be a `convert`"),
    ],
)
def test_bad_options(unstale, options, said):
    result = unstale("audit", *options)
    assert result.code == 2
    assert said in result.err
