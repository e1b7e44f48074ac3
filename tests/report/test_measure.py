"""Reading accuracies: intervals, remembering, and what a measurement says in words."""

from __future__ import annotations

import numpy as np
import pytest

from statetrack.models import ModelConfig
from statetrack.report import verdict
from statetrack.report.tables import bar, percent
from statetrack.training import EvalConfig, LengthConfig, TrainConfig, train
from statetrack.training.measure import Measurement, default_lengths, measure, remembered_lengths, wilson_interval
from statetrack.training.sweep import train_or_resume


def small(steps=10, task="parity", **rest):
    evaluation = EvalConfig(every=10, low=8, high=10, n=8)
    model = ModelConfig(d_model=8, layer={"d_state": 4})
    return TrainConfig("rnn", task, model=model, evaluation=evaluation, steps=steps, batch_size=8, checkpoint_every=5, **rest)


@pytest.mark.parametrize(("share", "n"), [(0.0, 10), (0.5, 40), (0.93, 512), (1.0, 512)])
def test_wilson_ends_lie_where_the_score_test_just_rejects(share, n):
    # The interval's ends are the p at which (share - p)^2 = z^2 p (1 - p) / n: found on a fine grid instead of by the formula.
    p = np.linspace(0, 1, 2_000_001)
    inside = p[(share - p) ** 2 <= 1.959964**2 * p * (1 - p) / n]
    low, high = wilson_interval(share, n)
    assert low == pytest.approx(inside.min(), abs=2e-6)
    assert high == pytest.approx(inside.max(), abs=2e-6)


def test_only_perfection_reads_100():
    assert [percent(share) for share in (1.0, 0.99999, 0.9994, 0.0)] == ["100.0 %", ">99.9 %", "99.9 %", "0.0 %"]


@pytest.mark.parametrize(("share", "filled"), [(0.0, 0), (0.5, 12), (1.0, 24)])
def test_bars_are_as_long_as_the_share(share, filled):
    drawn = bar(share, chance=0.7).plain
    assert len(drawn) == 24
    assert drawn.count("█") == filled
    assert ("┊" in drawn) == (share < 0.7)


def test_longest_good_length_ends_at_the_first_gap():
    found = Measurement({10: 0.95, 20: 0.91, 30: 0.9, 40: 1.0}, 100, 0.2)
    assert found.longest_good == 20
    assert Measurement({10: 0.5}, 100, 0.2).longest_good is None
    assert found.scaled(30) == pytest.approx(0.875)


VERDICTS = {
    "Right on every one of 100 words at each length up to 400, 10 times the longest it was trained on.": {40: 1.0, 400: 1.0},
    "Right on every one of 100 words at each length up to 60.": {40: 1.0, 60: 1.0},
    "Right on every one of 100 words up to length 40, and on 95.0 % of the labels at 400, 10 times the longest": {
        40: 1.0,
        400: 0.95,
    },
    "Right on every one of 100 words up to length 40, then it breaks: 30.0 % at length 400, where guessing": {40: 1.0, 400: 0.3},
    "Above 90 % up to length 80 (92.0 % there), then it breaks: 30.0 % at length 400": {40: 1.0, 80: 0.92, 400: 0.3},
    "Nearly right: 92.0 % or more at each length up to 400": {40: 0.99, 400: 0.92},
    "Has not learnt the task: 25.0 % at length 40, where guessing gives 20.0 %.": {40: 0.25, 400: 0.99},
}


@pytest.mark.parametrize(("sentence", "accuracy"), VERDICTS.items())
def test_verdicts(sentence, accuracy):
    said = verdict(Measurement(accuracy, 100, 0.2), small(lengths=LengthConfig(high=40)))
    assert said.startswith(sentence)


def test_an_earlier_test_is_reused_only_for_the_same_weights_and_words(tmp_path, monkeypatch):
    run = train(small(), tmp_path / "x")
    first = measure(run, [8, 12], n=16)
    asked = []
    real = type(run).evaluate
    monkeypatch.setattr(
        type(run), "evaluate", lambda self, lengths, **rest: asked.append(list(lengths)) or real(self, lengths, **rest)
    )
    assert measure(run, [8, 12], n=16, reuse=True) == first
    assert remembered_lengths(run, 16) == [8, 12]
    assert asked == []
    assert measure(run, [8, 12, 9], n=16, reuse=True).accuracy.keys() == {8, 9, 12}
    measure(run, [8], n=17, reuse=True)
    measure(run, [8], n=17)
    assert asked == [[9], [8], [8]]
    assert (remembered_lengths(run, 16), remembered_lengths(run, 17)) == ([9, 12], [8])
    state = run.latest_checkpoint() / "progress.json"
    state.write_text(state.read_text().replace('"step": 10', '"step": 11'))  # as if training had gone on
    assert remembered_lengths(run, 17) == []


def test_usual_lengths_are_those_the_task_can_make(tmp_path):
    run = train(small(task="modular-arithmetic"), tmp_path / "x")
    assert default_lengths(run) == [40, 64, 128, 256, 1000]


def test_a_configuration_that_cannot_run_makes_no_folder(tmp_path):
    from statetrack.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="shortest length"):
        train_or_resume(small(task="modular-arithmetic", lengths=LengthConfig(low=1, start=2)), tmp_path / "x")
    assert not (tmp_path / "x").exists()
