"""Standing in beside fits in the background: the same numbers, and nobody counts twice."""

from waiting_world import few, kinds, same, server_of, step, work

import unstale as us

WHOLE = us.method("convert", **few()).compensator


def in_place(report):
    return [u.client_id for u in report.updates if u.stand_in]


def absent_rounds(server, rounds, absent):
    """Rounds of one fast client, in which others are absent."""
    reports = []
    for _ in range(rounds):
        assert server.submit(work(server, "f")).accepted
        reports.append(server.step(absent))
    return reports


def test_it_gives_the_numbers_of_fits_in_the_step():
    # One update each: three trainings at once would be vectorised, which rounds differently.
    method = us.method("convert", **few(history=1)).compensator
    ends = []
    for background in (None, us.Background(threads=1)):
        server = server_of(background, method)
        lines = []
        for _ in range(3):
            stale = [work(server, c) for c in ("s1", "s2")]
            lines += [report.to_json() for report in absent_rounds(server, 3, ["s1", "s2"])]
            for update in stale:
                assert server.submit(update).accepted
                if background is not None:
                    assert background.wait(600)
            assert len(server.awaiting_fit) == (2 if background else 0)
            lines.append(step(server).to_json())
        for line in lines:
            line.pop("seconds")
            line.pop("awaiting_fit", None)
        ends.append((server.params, lines, server.stands_in_for()))
        if background is not None:
            background.close()
    assert same(ends[0][0], ends[1][0])
    assert ends[0][1:] == ends[1][1:]
    lines = ends[0][1]
    assert sum(line["conversions"] for line in lines) == 6
    assert [len(line.get("stand_ins", ())) for line in lines] == [0] * 4 + [2, 2, 2, 0] * 2
    assert [len(line.get("checked", ())) for line in lines] == [0] * 7 + [2] + [0] * 3 + [4]


def test_while_its_update_awaits_its_fit_a_client_is_stood_in_for_by_the_one_before(gated):
    with us.Background(gated) as background:
        server = server_of(background, WHOLE)
        first = work(server, "s")
        step(server)
        gated.open.set()
        assert server.submit(first).accepted
        assert background.wait(600)
        step(server)
        known = server.surrogates()["s"]
        gated.open.clear()
        second = work(server, "s")
        step(server)
        assert server.submit(second).accepted
        assert server.awaiting_fit == [("s", second.base_version)]
        (report,) = absent_rounds(server, 1, ["s"])  # asked again meanwhile, hence at work
        assert in_place(report) == ["s"]
        assert report.to_json()["stand_ins"][0]["age"] == server.version - 1 - first.base_version
        assert server.surrogates()["s"].x is known.x
        gated.open.set()
        assert background.wait(600)
        (report,) = absent_rounds(server, 1, ["s"])
        assert in_place(report) == [], "its own update goes before"
        assert report.absent == ()
        assert ("converted", second.base_version) in kinds(report)


def test_saved_while_fits_are_under_way_it_goes_on_to_the_bit(tmp_path):
    ends = []
    for disturbed in (False, True):
        with us.Background(threads=1) as background:
            server = server_of(background, WHOLE)
            lines = []
            for _ in range(3):
                stale = work(server, "s")
                lines += [r.to_json() for r in absent_rounds(server, 2, ["s"])]
                assert server.submit(stale).accepted
                if disturbed:
                    server.save(tmp_path)
                    server = us.Server.load(tmp_path, server.model, background=background)
                assert background.wait(600)
                lines.append(step(server).to_json())
            lines = [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
            ends.append((server.params, lines))
    assert same(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
    assert sum(len(line.get("stand_ins", ())) for line in ends[0][1]) == 4
