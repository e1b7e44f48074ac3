"""The recipe on what is expressible but not learnt."""

from statetrack.automata import derived_series, group
from statetrack.recipes import learnability, recipes
from statetrack.training.settings import check


def test_stacks_are_as_deep_as_theory_asks(tmp_path):
    jobs = recipes.get("learnability")().jobs(tmp_path)
    assert len({job.out for job in jobs}) == len(jobs) == 2 * 5 + 2 * 5 * 5
    for job in jobs:
        check(job.config)
        steps = derived_series(group(job.config.task_options["group"]))
        assert job.config.model.n_layers == len(steps) - 1 == (3 if job.config.task_options["group"] == "S4" else 2)


def entry(name, at_100, at_1000):
    return {
        "run": name,
        "status": "done",
        "accuracy": {"60": 1.0, "100": at_100, "300": at_1000, "1000": at_1000, "10000": 0.5},
        "cpu_minutes": 2.0,
        "settings": {"model": {"n_layers": 2}},
    }


def test_rows_count_the_runs_that_are_right():
    runs = [entry("picked-phases-S3-0", 1.0, 1.0), entry("picked-phases-S3-1", 0.5, 0.2), entry("aussm-A4-0", 0.3, 0.1)]
    lines = recipes.get("learnability")().table({"runs": runs}).splitlines()
    assert lines[2:] == [
        "| aussm | A4 | 2 | 0 of 1 | none | 30.00 | 10.00 | 50.00 | 2.0 |",
        "| picked-phases | S3 | 2 | 1 of 2 | 1,000 | 100.00 | 100.00 | 50.00 | 2.0 |",
    ]
    assert learnability.LENGTHS[-1] == 10_000
