"""Windows, resampling, parts without shared patients, and records of PhysioNet."""

import numpy as np
import pytest

from statetrack.errors import InvalidInputError, MissingDataError
from statetrack.timeseries.wfdb_records import read_wfdb
from statetrack.timeseries.windows import around, resample, split_by_group, windows


def record(steps):
    return np.arange(2 * steps, dtype=np.float32).reshape(steps, 2)


def test_windows_cover_what_they_should():
    pieces, starts = windows(record(11), 4)
    assert starts.tolist() == [0, 4]
    np.testing.assert_array_equal(np.concatenate(pieces), record(8))
    assert windows(record(3), 4)[0] == []


def test_windows_around_marks_stay_inside():
    pieces, kept = around(record(10), np.array([1, 2, 7, 8]), before=2, after=3)
    assert kept.tolist() == [1, 2]
    np.testing.assert_array_equal(pieces[1], record(10)[5:10])


@pytest.mark.parametrize(("rate", "target"), [(300, 100), (360, 250), (100, 300), (8000, 8000)])
def test_a_slow_wave_survives_resampling(rate, target):
    pytest.importorskip("scipy")
    wave = lambda r: np.sin(2 * np.pi * 3 * np.arange(4 * r) / r)[:, None].astype(np.float32)  # noqa: E731
    found = resample(wave(rate), rate, target)
    assert found.shape == (4 * target, 1)
    middle = slice(target // 2, -target // 2)
    np.testing.assert_allclose(found[middle], wave(target)[middle], atol=0.01)


def test_what_the_new_rate_cannot_show_is_kept_out():
    pytest.importorskip("scipy")
    fast = np.sin(2 * np.pi * 90 * np.arange(3000) / 300)[:, None].astype(np.float32)
    assert np.abs(resample(fast, 300, 100)[100:-100]).max() < 0.01
    for bad in (np.full((9, 1), np.nan, np.float32), fast):
        with pytest.raises(InvalidInputError):
            resample(bad, 300, 100 if np.isnan(bad).any() else -1)


def test_no_patient_is_in_two_parts():
    generator = np.random.default_rng(0)
    patients = np.repeat(np.arange(40), generator.integers(1, 30, 40))
    parts = split_by_group(patients, np.random.default_rng(1))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(patients)))
    held = [set(patients[part].tolist()) for part in parts]
    assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])
    assert abs(len(parts.train) / len(patients) - 0.7) < 0.1 and min(map(len, parts)) > 0


@pytest.mark.parametrize("seed", range(8))
def test_every_part_gets_a_patient(seed):
    assert min(map(len, split_by_group(["a"] * 50 + ["b", "c"], np.random.default_rng(seed)))) > 0
    with pytest.raises(InvalidInputError, match="patients"):
        split_by_group(["a", "a", "b"], np.random.default_rng(0))


def test_a_record_of_physionet(tmp_path):
    """16-bit samples, 200 units per millivolt; annotations as pairs of bytes: kind << 10 | steps since the last."""
    pytest.importorskip("wfdb")
    samples = np.array([[0, 100], [200, -200], [-32768, 400]], dtype="<i2")
    (tmp_path / "r1.dat").write_bytes(samples.tobytes())
    lines = ["r1 2 360 3", "r1.dat 16 200 16 0 0 0 0 lead one", "r1.dat 16 200 16 0 100 0 0 V5"]
    (tmp_path / "r1.hea").write_text("\n".join(lines) + "\n")
    beats = np.array([1 << 10 | 1, 5 << 10 | 1, 0], dtype="<u2")  # 1 is N, 5 is V
    (tmp_path / "r1.atr").write_bytes(beats.tobytes())
    found = read_wfdb(tmp_path / "r1.hea", annotator="atr")
    np.testing.assert_allclose(found.signal, [[0, 0.5], [1, -1], [np.nan, 2]])
    assert found.rate == 360 and found.channels == ("lead one", "V5") and found.units == ("mV", "mV") and found.name == "r1"
    assert found.annotations.positions.tolist() == [1, 2] and found.annotations.symbols.tolist() == ["N", "V"]
    assert read_wfdb(tmp_path / "r1").annotations is None
    with pytest.raises(MissingDataError, match=r"r1\.qrs"):
        read_wfdb(tmp_path / "r1", annotator="qrs")
    (tmp_path / "r1.hea").write_text("nonsense\n")
    with pytest.raises(InvalidInputError, match="damaged"):
        read_wfdb(tmp_path / "r1")
