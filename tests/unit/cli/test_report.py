import json


def test_a_folder_without_a_run(unstale, tmp_path):
    for name in ("nowhere", "."):
        result = unstale("report", name)
        assert (result.code, result.out) == (1, "")
        assert "Traceback" not in result.err
        assert result.err.startswith("Error: ")
        assert len(result.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_folder_at_all(unstale):
    result = unstale("report")
    assert result.code == 2
    assert "Missing argument" in result.err


def test_several_folders_in_one_page_and_table(unstale, small, tmp_path):
    for out, rounds in (("a", 3), ("b", 3), ("c", 4)):
        assert (
            unstale("run", "quickstart", *small, "--set", f"rounds={rounds}", "--out", out)[0] == 0
        )
    result = unstale("report", "a", "b", "--csv", "rounds.csv")
    assert (result.code, result.err) == (0, "")
    assert "unweighted (a)" not in result.out
    assert "shown once: no_delay, unweighted" in result.out
    assert "Report: comparison.html" in result.out
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) == 1 + 2 * 2 * 3
    result = unstale("report", "a", "c", "--out", "deep/page.html")
    assert result.code == 0
    assert "rounds: a 3; c 4" in result.out
    assert "*0." not in result.out
    assert (tmp_path / "deep" / "page.html").is_file()
    found = json.loads(unstale("report", "a", "c", "--json").out)
    assert found["differing"] == {"rounds": ["3", "4"]}
    assert set(found["methods"]) >= {"unweighted (a)", "unweighted (c)"}


def test_missing_rounds_are_a_warning_and_the_old_summary_is_not_printed(unstale, small, tmp_path):
    assert unstale("run", "quickstart", *small, "--out", "a").code == 0
    whole = unstale("report", "a", "--out", "page.html")
    assert (whole.code, whole.err) == (0, "")
    assert (tmp_path / "page.html").is_file()
    assert not (tmp_path / "a" / "report.html").exists()
    path = tmp_path / "a" / "rounds" / "unweighted" / "seed-0.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    result = unstale("report", "a")
    assert result.code == 0
    assert "unweighted, seed 0: round 3 of 3" in result.err
    assert "provisional" in result.out
    found = json.loads(unstale("report", "a", "--json").out)
    assert "methods" not in found
    assert found["missing"] == ["unweighted, seed 0: round 3 of 3"]
