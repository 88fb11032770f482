import json

import pytest
from read_back import tensorboard
from told_rounds import line

from unstale.sinks import scalars_of
from unstale.sinks.tensorboard import TensorBoard


def place(folder, label="convert"):
    return folder.path / "tensorboard" / label / "seed-0"


def test_what_is_written_can_be_read_back(folder, tell):
    tell([TensorBoard()], range(1, 9), finish=True)
    found = tensorboard(place(folder))
    for t in (1, 3, 8):
        for name, value in scalars_of(line(t)).items():
            assert dict(found[name])[t] == pytest.approx(value), name
    assert found["refused/not_finite"] == [(4, 1.0), (5, 0.0), (6, 0.0), (7, 0.0), (8, 0.0)]
    assert found["summary/accuracy"] == [(8, pytest.approx(0.75))]


def test_the_settings_are_a_text(folder, tell):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tell([TensorBoard()], [1])
    events = EventAccumulator(str(place(folder)))
    events.Reload()
    (text,) = events.Tensors("settings/text_summary")
    shown = text.tensor_proto.string_val[0].decode()
    settings = json.loads(shown.removeprefix("```json\n").removesuffix("\n```"))
    assert settings["method"]["label"] == "convert"
    assert settings["local"] == {"lr": 0.1}


def test_a_resumed_run_shows_each_round_once(folder, tell):
    tell([TensorBoard()], range(1, 6))
    tell([TensorBoard()], range(1, 9))
    steps = [step for step, _ in tensorboard(place(folder))["arrivals/all"]]
    assert steps == list(range(1, 9))


def test_a_record_that_was_lost_repeats_no_round(folder, tell):
    tell([TensorBoard()], range(1, 6))
    record = folder.sinks_path("convert", 0)
    record.write_text(record.read_text().replace('"written": 5', '"written": 3'))
    tell([TensorBoard()], range(1, 9))
    steps = [step for step, _ in tensorboard(place(folder))["arrivals/all"]]
    assert steps == list(range(1, 9))


def test_another_folder(folder, tell, tmp_path):
    tell([TensorBoard(tmp_path / "elsewhere")], range(1, 4))
    assert not (folder.path / "tensorboard").exists()
    found = tensorboard(tmp_path / "elsewhere" / "convert" / "seed-0")
    assert len(found["accuracy/all"]) == 3


def test_a_full_disk_does_not_stop_the_run(tell, monkeypatch, caplog):
    def full(writer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.flush", full)
    tell([TensorBoard()], range(1, 9), finish=True)
    (said,) = (r.getMessage() for r in caplog.records)
    assert "TensorBoard failed" in said
    assert "No space left on device" in said
