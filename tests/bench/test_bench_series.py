"""What a long series takes: probes, the check of streams, the report."""

import numpy as np
import pytest
import torch

from statetrack.bench import series
from statetrack.bench.series_probe import network, probe, read, signal
from statetrack.timeseries.network import SeriesNet


def test_every_way_reads_the_same():
    net = network("linoss", 8, 2)
    scores = [read(net, mode, 100, 16) for mode in series.MODES]
    for found in scores[1:]:
        torch.testing.assert_close(found, scores[0])
    torch.testing.assert_close(scores[0], net(signal(100)).detach())


def test_a_probe_reports_each_length():
    entries = probe("linoss", "carries", [32, 64], 8, 1, 16)
    assert [entry["L"] for entry in entries] == [32, 64]
    assert all(entry["cpu_seconds"] > 0 and entry["peak_bytes"] >= entry["before_bytes"] > 0 for entry in entries)


def test_a_stream_is_compared_with_the_whole(monkeypatch):
    found = series.compare_stream("linoss", 700, d_model=8, n_layers=1)
    assert all(value < 1e-5 for name, value in found.items() if name.endswith("difference")) and found["single_steps"] == 700
    net = network("linoss", 8, 1)
    net.__class__ = Forgetful
    monkeypatch.setattr(series, "network", lambda *sizes: net)
    assert series.compare_stream("linoss", 700, d_model=8, n_layers=1)["feature_difference"] > 1e-5


class Forgetful(SeriesNet):
    def advance(self, x, carry, mask=None):
        return super().advance(x, carry, mask)._replace(states=self.start(1).states)


def report(difference=0.0, monkeypatch=None):
    same = {"difference": 0.0, "single_difference": 0.0, "single_feature_difference": 0.0}
    found = {**same, "feature_difference": difference, "steps": 9, "single_steps": 9}
    monkeypatch.setattr(series, "compare_stream", lambda layer, record, **sizes: {"layer": layer, **found})
    entry = lambda n: {"L": n, "cpu_seconds": 2e-6 * n + 0.1, "before_bytes": 100, "peak_bytes": 100 + 7 * n}  # noqa: E731
    monkeypatch.setattr(series, "_run_probe", lambda settings: [entry(n) for n in settings["lengths"]])
    return series.measure(True, lambda message: None)


def test_the_slope_is_that_of_the_line(monkeypatch):
    pytest.importorskip("matplotlib")
    found = report(monkeypatch=monkeypatch)
    assert len(found["fits"]) == 6 and not found["refused"]
    for fit in found["fits"]:
        np.testing.assert_allclose([fit["us_per_step"], fit["bytes_per_step"], fit["time_r2"]], [2.0, 7.0, 1.0])
    assert len(series.tables(found)[0].rows) == 18 and len(series.figure(found).axes) == 2


def test_a_stream_that_differs_is_refused(monkeypatch):
    found = report(difference=1e-3, monkeypatch=monkeypatch)
    assert len(found["refused"]) == 2 and not found["entries"] and not found["fits"]
