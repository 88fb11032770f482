def test_a_folder_without_a_run(unstale, tmp_path):
    for name in ("nowhere", "."):
        result = unstale("report", name)
        assert (result.code, result.out) == (1, "")
        assert "Traceback" not in result.err
        assert result.err.startswith("Error: ")
        assert len(result.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
