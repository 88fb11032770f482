def test_keeps_a_run(unstale, small, tmp_path):
    assert unstale("run", "--out", "run", *small).code == 0
    kept = unstale("keep", "run", "kept")
    assert kept.code == 0
    assert kept.out.startswith("Kept: kept (")
    assert unstale("report", "kept", "--json").code == 0
    summaries = [(tmp_path / name / "summary.json").read_text() for name in ("run", "kept")]
    assert summaries[0] == summaries[1]


def test_an_unfinished_run_is_not_kept(unstale, tmp_path):
    (tmp_path / "run").mkdir()
    refused = unstale("keep", "run", "kept")
    assert refused.code == 1
    assert refused.err.startswith("Error: Only a finished run should be kept.")
