"""Recipes on series: jobs, splits, what is kept and skipped, tables; on sets that are made up."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.recipes import beats, ecg, lra, recipes, series_runs, uea
from statetrack.recipes.digits import official
from statetrack.recipes.series_methods import BASELINES, Parts, compare, scores
from statetrack.tasks.listops import value_of
from statetrack.timeseries.ts_file import Cases
from statetrack.timeseries.wfdb_records import Annotations, Record

NAMES = ("uea", "ecg", "digits", "lra", "beats")


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A set of 20 cases called BasicMotions: a rising and a falling line."""
    pytest.importorskip("sklearn")
    folder = tmp_path / "data"
    folder.mkdir()
    for part, offset in (("TRAIN", 0), ("TEST", 100)):
        lines = ["@classLabel true up down", "@data"]
        for i in range(10):
            line = np.arange(9) * (1 if i % 2 else -1) + i + offset
            lines.append(",".join(map(str, line)) + f":{'up' if i % 2 else 'down'}")
        (folder / f"BasicMotions_{part}.ts").write_text("\n".join(lines))
    monkeypatch.setenv("STATETRACK_DATA", str(folder))
    monkeypatch.setitem(uea.SMALL, "BasicMotions", (2, 8, 1))
    uea._pooled.cache_clear()
    yield folder
    uea._pooled.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_runs_have_names_of_their_own_and_settings_an_estimator_takes(name):
    pytest.importorskip("sklearn")
    from statetrack.timeseries import StateTrackClassifier

    for preset in recipes.get(name).presets:
        jobs = recipes.get(name)(preset).jobs()
        assert len({job.name for job in jobs}) == len(jobs)
        json.dumps([job.settings for job in jobs])
        for job in jobs:
            if job.method not in BASELINES:
                StateTrackClassifier(job.method, **job.settings)


def test_the_long_preset_is_the_published_protocol():
    jobs = recipes.get("uea")("long").jobs()
    assert {job.data for job in jobs} == set(uea.SETS) and {job.seed for job in jobs} == {2345, 3456, 4567, 5678, 6789}
    worms = next(job for job in jobs if job.data == "EigenWorms" and job.method == "pd-ssm")
    assert worms.settings["lr"] == 1e-4 and worms.settings["n_layers"] == 6 and worms.settings["d_model"] == 128
    table = recipes.get("uea")("long").table({"runs": [entry("pd-ssm", "EigenWorms", 0.9)]})
    assert "| LinOSS-IM (published) | 95.0 ± 4.4 |" in table and "| **pd-ssm** | 90.0 [" in table


def test_a_run_is_kept_and_not_done_again(archive, tmp_path, monkeypatch):
    told = []
    recipe = recipes.get("uea")()
    result = recipe.run(tmp_path / "out", observer=told.append, only=["BasicMotions-lru-2345"])
    assert [run["run"] for run in result["runs"]] == ["BasicMotions-lru-2345"] and len(told) == 1
    assert result["runs"][0]["n_test"] == 3 and result == json.loads((tmp_path / "out" / "uea_cpu.json").read_text())
    assert "BasicMotions" in (tmp_path / "out" / "uea_cpu.md").read_text()
    monkeypatch.setattr(series_runs, "compare", None)
    again = recipe.run(tmp_path / "out", observer=told.append, only=["BasicMotions-lru-2345"])
    assert again == result and len(told) == 1


def test_a_run_with_other_settings_is_done_again(archive, tmp_path, monkeypatch):
    recipe, only = recipes.get("uea")(), ["BasicMotions-s5-2345"]
    recipe.run(tmp_path, observer=list, only=only)
    monkeypatch.setitem(uea.SMALL, "BasicMotions", (1, 8, 1))
    assert recipe.run(tmp_path, observer=list, only=only)["runs"][0]["epochs"] == 1


def test_what_is_missing_is_said_once_and_skipped(tmp_path, monkeypatch):
    monkeypatch.setenv("STATETRACK_DATA", str(tmp_path / "nothing"))
    uea._pooled.cache_clear()
    told = []
    result = recipes.get("uea")("long").run(tmp_path / "out", observer=told.append, only=["EigenWorms-l*", "EigenWorms-s5-*"])
    assert len(result["runs"]) == 15 and all(run["status"] == "skipped" for run in result["runs"])
    assert len(told) == 1 and "EigenWorms_TRAIN.ts" in told[0] and "STATETRACK_DATA" in told[0]
    assert not (tmp_path / "out" / "runs").exists()
    ecg._records.cache_clear()
    skipped = recipes.get("ecg")().run(tmp_path / "out", observer=told.append)["runs"]
    assert all(run["status"] == "skipped" for run in skipped) and "physionet" in told[-1]


def test_names_that_match_nothing_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="BasicMotions-flash-pd-ssm-2345"):
        recipes.get("uea")().run(tmp_path, only=["nothing"])


def test_scores_of_the_sklearn_kind():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    truth, predicted = generator.integers(0, 4, 90).astype(str), generator.integers(0, 4, 90).astype(str)
    found = scores(truth, predicted)
    assert np.isclose(found["macro_f1"], metrics.f1_score(truth, predicted, average="macro"))
    assert np.isclose(found["accuracy"], metrics.accuracy_score(truth, predicted))
    assert found["confusion"] == metrics.confusion_matrix(truth, predicted).tolist()


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.filterwarnings("default")
def test_baselines_take_series_of_unequal_and_small_length(method):
    pytest.importorskip("aeon")
    generator = np.random.default_rng(0)
    rows = [generator.normal(size=(4 + i % 4, 2)).astype(np.float32) + 3 * (i % 2) for i in range(18)]
    cases = Cases(rows, np.array(["a", "b"] * 9))
    assert compare(method, {}, Parts(cases, cases, cases), 0)["accuracy"] > 0.9


def test_parts_that_are_empty_are_refused():
    cases = Cases([np.zeros((3, 1), np.float32)], np.array(["a"]))
    with pytest.raises(InvalidInputError, match="validation"):
        compare("lru", {}, Parts(cases, Cases([], np.array([])), cases), 0)


def test_splits_hold_every_record_once():
    labels = np.repeat(["A", "N", "O", "~"], [40, 100, 60, 20])
    parts = ecg.stratified(labels, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(220))
    assert [(labels[part] == "A").sum() for part in parts] == [28, 6, 6]
    index = np.tile(np.arange(10), 20)
    train, validation, test = official(np.repeat(np.arange(10), 20), index, 0)
    assert sorted([*train, *validation, *test]) == list(range(200))
    assert (index[test] < 5).all() and (index[train] >= 5).all() and len(test) == 100 and len(validation) == 20


def made_record(name, every=60):
    """A record of one lead with a beat every so many steps; every fifth is ventricular, broad and turned over."""
    signal = np.random.default_rng(len(name)).normal(0, 0.05, size=(every * 60, 1)).astype(np.float32)
    positions = every // 2 + every * np.arange(60)
    symbols = np.where(np.arange(60) % 5 == 2, "V", "N")
    for at, symbol in zip(positions, symbols, strict=True):
        width, height = (9, -1.0) if symbol == "V" else (3, 1.0)
        signal[at - width : at + width, 0] += height
    return Record(name, signal, 360.0, ("MLII",), ("mV",), Annotations(positions, symbols, np.array([""] * 60)))


def test_beats_are_cut_halfway_and_streamed(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    record = made_record("r")
    assert beats.borders(record)[:2].tolist() == [60, 120] and len(beats.borders(record)) == 59
    cases = beats.cut_beats(record)
    assert [len(series) for series in cases.series] == [60] * 58 and cases.labels[:4].tolist() == ["other", "V", "other", "other"]
    monkeypatch.setattr(beats, "_record", made_record)
    monkeypatch.setattr(beats, "beat_settings", lambda layer: {"d_model": 8, "max_epochs": 30, "lr": 0.02, "patch": 4})
    found = recipes.get("beats")().run(tmp_path, observer=list, only=["106-linoss-0"])["runs"][0]
    assert found["sensitivity"] == found["precision"] == found["accuracy"] == 1 and found["n_test"] == 58
    assert found["difference"] < 1e-5 and found["steps"] == 3600
    assert "| **linoss** | 106 | 58 | 100.0 | 100.0 | 100.0 |" in (tmp_path / "beats_cpu.md").read_text()


def entry(method, data, accuracy, **more):
    given = {"run": f"{data}-{method}", "method": method, "data": data, "status": "done", "accuracy": accuracy, "n_test": 36}
    return {**given, "macro_f1": accuracy, "cpu_minutes": 2.0, "confusion": [[3, 1], [0, 4]], **more}


def test_tables_give_mean_deviation_and_number_of_runs():
    runs = [entry("lru", "Cricket", 0.5), entry("lru", "Cricket", 0.7), entry("1nn-dtw", "Cricket", 0.75)]
    lines = recipes.get("uea")().table({"runs": runs}).splitlines()
    assert lines[0] == "| method | Cricket |"
    assert lines[2:] == [
        "| **lru** | 60.0 ± 10.0 (2) |",
        "| **1nn-dtw** | 75.0 [59, 86] (1) |",
        "| cases in a test part | 36 |",
    ]
    assert recipes.get("uea")().table({"runs": []}) == "No run is done yet."
    row = recipes.get("ecg")().table({"runs": [entry("linoss", "cinc2017", 0.5)]}).splitlines()[2]
    assert row == "| **linoss** | 50.0 (1) | 50.0 [34, 66] (1) | 86, 89 | 2.0 |"


def test_lists_are_those_of_the_task_and_parts_differ():
    cases, other = lra.expressions(20, 40, "train"), lra.expressions(20, 40, "test")
    for series, label in zip(cases.series, cases.labels, strict=True):
        assert 10 < len(series) <= 40 and str(value_of(series[:, 0].astype(int).tolist())) == label
    assert [s.tobytes() for s in cases.series] != [s.tobytes() for s in other.series]


def test_reviews_that_are_tested_are_not_trained_on(tmp_path, monkeypatch):
    (tmp_path / "IMDB").mkdir()
    reviews = {"train": ["good é", "shared", "bad"] * 10, "test": ["shared", "dull"]}
    for part, texts in reviews.items():
        with lzma.open(tmp_path / "IMDB" / f"{part}.jsonl.xz", "wt", encoding="utf8") as file:
            file.writelines(json.dumps({"text": text, "label": i % 2}) + "\n" for i, text in enumerate(texts))
    monkeypatch.setenv("STATETRACK_DATA", str(tmp_path))
    lra._reviews.cache_clear()
    recipe = recipes.get("lra")()
    job = next(job for job in recipe.jobs() if job.data == "text")
    parts = recipe.parts(job)
    lra._reviews.cache_clear()
    found = {bytes(series[:, 0].astype(np.uint8)) for part in parts[:2] for series in part.series}
    assert found == {"good é".encode(), b"bad"} and len(parts.train.series) == 18 and len(parts.validation.series) == 2
    with pytest.raises(InvalidInputError, match="line 1"):
        lra.read_reviews(write_xz(tmp_path / "bad.jsonl.xz", '{"text": 1}\n'))


def write_xz(path, text):
    path.write_bytes(lzma.compress(text.encode()))
    return path


STORED = [path for name in NAMES if (path := Path(__file__).parents[2] / "results" / f"{name}_cpu.json").exists()]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_tables_are_those_of_the_stored_runs(path):
    name = path.stem.removesuffix("_cpu")
    result = json.loads(path.read_text(encoding="utf8"))
    assert recipes.get(name)("cpu").table(result) + "\n" == path.with_suffix(".md").read_text(encoding="utf8")
    assert {run["status"] for run in result["runs"]} == {"done"}
