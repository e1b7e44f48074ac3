"""Readers of sets: what is written by hand is read back, what contradicts itself is refused with its line."""

import lzma

import numpy as np
import pytest

from statetrack.errors import InvalidInputError, MissingDataError
from statetrack.timeseries.archive import find_file, load_set
from statetrack.timeseries.array_files import read_npz, read_table
from statetrack.timeseries.ts_file import read_ts

HEAD = """#\ufeffa comment
@problemName Toy
@timeStamps false
@missing true
@univariate false
@dimensions 2
@equalLength false
@classLabel true a b
@data
"""
PLAIN = "@classLabel true 1 2\n@data\n"


def written(tmp_path, text, name="Toy_TRAIN.ts"):
    path = tmp_path / name
    path.write_text(text, encoding="utf8")
    return path


def test_series_of_a_ts_file(tmp_path):
    cases = read_ts(written(tmp_path, HEAD + "1,2.5,-3e1:4,?,6:b\n\n7:8:a\n"))
    np.testing.assert_array_equal(cases.series[0], [[1, 4], [2.5, np.nan], [-30, 6]])
    np.testing.assert_array_equal(cases.series[1], [[7, 8]])
    np.testing.assert_array_equal(cases.channels_first[0], [[1, 2.5, -30], [4, np.nan, 6]])
    assert cases.labels.tolist() == ["b", "a"] and cases.series[0].dtype == np.float32


def test_numbers_as_labels(tmp_path):
    cases = read_ts(written(tmp_path, "@targetLabel true\n@data\n1,2:0.5\n3:-2\n"))
    assert cases.labels.tolist() == [0.5, -2.0]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (HEAD + "1,2:3,4:c\n", 10, "label 'c'"),
        (HEAD + "1,2:3,4:a\n1,2:a\n", 11, "expected 2 channels"),
        (HEAD + "1,2:3:a\n", 10, "lengths: 1, 2"),
        (HEAD + "1,x:3,4:a\n", 10, "'x' is no number"),
        (HEAD + "1,:3,4:a\n", 10, "'' is no number"),
        (HEAD + "1,1e99:3,4:a\n", 10, "infinite"),
        (PLAIN + "1,2:1\n1:2:1\n", 4, "expected 1 channels"),
        ("@missing false\n" + PLAIN + "1,?:1\n", 4, "@missing false"),
        ("@equalLength true\n" + PLAIN + "1,2:1\n1,2,3:1\n", 5, "expected 2 steps; got 3"),
        ("@seriesLength 3\n" + PLAIN + "1,2:1\n", 4, "expected 3 steps"),
        ("@timeStamps true\n" + PLAIN + "1:1\n", 3, "time stamps"),
        ("@timeStamps maybe\n" + PLAIN, 1, "true or false"),
        ("@dimensions two\n" + PLAIN, 1, "whole number"),
        ("@colour red\n" + PLAIN, 1, "@colour"),
        ("1,2:1\n" + PLAIN, 1, "before @data"),
        ("@classLabel true\n@data\n1:1\n", 1, "the labels"),
        ("@data\n1:1\n", 1, "@classLabel"),
        ("@targetLabel true\n@data\n1:one\n", 3, "'one'"),
    ],
)
def test_errors_name_the_line(tmp_path, text, line, words):
    with pytest.raises(InvalidInputError, match=f"line {line}: .*{words}"):
        read_ts(written(tmp_path, text))


@pytest.mark.parametrize("text", ["@classLabel true 1\n", PLAIN])
def test_files_without_series_are_refused(tmp_path, text):
    with pytest.raises(InvalidInputError, match="@data"):
        read_ts(written(tmp_path, text))


def test_archives_of_arrays(tmp_path):
    x, y = np.arange(24.0).reshape(4, 3, 2), np.array([1, 2, 1, 2])
    np.savez(tmp_path / "one.npz", X=x, y=y, n_train=3)
    np.savez(tmp_path / "two.npz", X_train=x[:3], y_train=y[:3], X_test=x[3:], y_test=y[3:])
    for name in ("one.npz", "two.npz"):
        train, test = read_npz(tmp_path / name)
        np.testing.assert_array_equal(np.stack([*train.series, *test.series]), x)
        assert train.labels.tolist() == ["1", "2", "1"] and test.labels.tolist() == ["2"]
    np.savez(tmp_path / "ends.npz", signal=np.arange(5, dtype=np.int16), offset=np.array([0, 2, 5]), label=np.array(["N", "A"]))
    cases, nothing = read_npz(tmp_path / "ends.npz")
    assert nothing is None and [s.ravel().tolist() for s in cases.series] == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros(3)}, "X and y"),
        ({"X": np.zeros((4, 3, 2)), "y": np.zeros(3)}, "labels"),
        ({"X": np.zeros((4, 3, 2)), "y": np.zeros(4), "n_train": 4}, "n_train"),
        ({"signal": np.zeros(5), "offset": np.array([0, 5, 5]), "label": np.zeros(2)}, "offset"),
        ({"X": np.array([None, 1]), "y": np.zeros(2)}, "plain arrays"),
    ],
)
def test_archives_that_do_not_fit_are_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InvalidInputError, match=words):
        read_npz(tmp_path / "bad.npz")
    (tmp_path / "half.npz").write_bytes(b"PK\x03\x04half")
    with pytest.raises(InvalidInputError, match="plain arrays"):
        read_npz(tmp_path / "half.npz")


def test_text_tables(tmp_path):
    with lzma.open(tmp_path / "Toy_TRAIN.txt.xz", "wt") as file:
        file.write("1.0  0.5 2\n2 1e1 NaN\n")
    cases = read_table(tmp_path / "Toy_TRAIN.txt.xz")
    assert cases.labels.tolist() == ["1", "2"] and cases.series[0].tolist() == [[0.5], [2.0]] and np.isnan(cases.series[1][1, 0])
    with pytest.raises(InvalidInputError, match="line 2"):
        read_table(written(tmp_path, "1\t2\t3\n1\tx\t3\n", "Toy.tsv"))


def test_sets_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("STATETRACK_DATA", str(tmp_path))
    folder = tmp_path / "UEA_Toy"
    folder.mkdir()
    for part in ("TRAIN", "TEST"):
        written(folder, HEAD + "1,2:3,4:a\n", f"Toy_{part}.ts")
    train, test = load_set("Toy")
    assert len(train.series) == len(test.series) == 1
    assert find_file("Toy_TEST.ts", source="nowhere") == folder / "Toy_TEST.ts"
    with pytest.raises(MissingDataError, match=r"Nile_TRAIN\.ts.*timeseriesclassification.*STATETRACK_DATA"):
        load_set("Nile")
    with pytest.raises(MissingDataError, match="the archive of beats"):
        find_file("beats.npz", source="the archive of beats")
    with pytest.raises(MissingDataError, match="Nile"):
        read_ts(tmp_path / "Nile_TRAIN.ts")
