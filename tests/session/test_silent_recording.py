"""A recording as it is read from its folder."""

from pathlib import Path

from build_recordings import START

from tunekit.records.codec import write_json
from tunekit.records.recording import HostInterval
from tunekit.session.recording import load_recording
from tunekit.trial.recording import HOST_FILE, RECORDING_FILE


def test_a_recording_that_fell_silent_has_ended(tmp_path: Path) -> None:
    write_json(tmp_path / RECORDING_FILE, START.changed(started_at_s=1000.0))
    last = HostInterval(at_s=1048, duration_s=2, cpu_s=1, others_cpu_s=0, read_bytes=0, pss_bytes=1)
    (tmp_path / HOST_FILE).write_text(last.model_dump_json())
    seen = load_recording(tmp_path)
    assert (seen.ended_at_s, seen.figures.elapsed_s) == (1050.0, 50.0)
