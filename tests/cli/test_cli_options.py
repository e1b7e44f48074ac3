"""From options to configurations and back."""

import dataclasses
import shlex

import pytest

from statetrack.cli import config_options
from statetrack.cli.config_options import parse_config
from statetrack.cli.docstrings import documented
from statetrack.cli.options import flags
from statetrack.layers import layer_options, layers
from statetrack.models import ModelConfig
from statetrack.recipes.defaults import default_config
from statetrack.report.reproduce import folded, train_command
from statetrack.tasks import task_options, tasks
from statetrack.training import EvalConfig, LengthConfig, OptimConfig
from statetrack.training.settings import check, differences, settings

PAIRS = [(layer, "parity") for layer in layers] + [("rnn", task) for task in tasks]


@pytest.mark.parametrize(("layer", "task"), PAIRS)
def test_every_layer_and_task_can_be_named_with_nothing_else(layer, task):
    config, _, rest, known = parse_config(layer, task, [], "prog", seed=7)
    assert rest == []
    assert differences(config, default_config(layer, task, seed=7)) == {}
    names = flags(known)
    assert {f"--layer.{name.replace('_', '-')}" for name in layer_options(layer)} <= set(names)
    assert {f"--task.{name.replace('_', '-')}" for name in task_options(task)} <= set(names)
    check(config)


def test_a_command_gives_back_the_configuration_it_was_made_from():
    config = dataclasses.replace(
        default_config("flash-pd-ssm", "cycle-navigation", seed=2),
        task_options={"format": "xlstm", "cycle": 7},
        model=ModelConfig(d_model=24, n_layers=3, residual=True, layer={"d_state": 5, "skip": False, "temperature_end": 0.25}),
        optim=OptimConfig(lr=3e-3, schedule="cosine"),
        lengths=LengthConfig(start=None, mixed=False),
        evaluation=EvalConfig(n=17),
        steps=123,
        restart_after=50,
    )
    words = shlex.split(train_command(config, "runs/a b"))
    assert words[:6] == ["statetrack", "train", "flash-pd-ssm", "cycle-navigation", "--seed", "2"]
    assert words[-2:] == ["--out", "runs/a b"]
    parsed, _, rest, _ = parse_config("flash-pd-ssm", "cycle-navigation", words[6:-2], "prog", seed=2)
    assert rest == []
    assert settings(parsed) == settings(config)
    assert shlex.split(folded(train_command(config, "runs/a b")).replace("\\\n", " ")) == words


def test_defaults_are_asked_for_with_the_options_that_were_given(monkeypatch):
    asked = []

    def recorded(layer, task, **rest):
        asked.append(rest)
        return default_config(layer, task, **rest)

    monkeypatch.setattr(config_options, "default_config", recorded)
    words = shlex.split("--layer.d-state 9 --layer.no-skip --task.format=xlstm --steps 5")
    parse_config("flash-pd-ssm", "parity", words, "prog", seed=1)
    assert asked[-1] == {"seed": 1, "layer_options": {"d_state": 9, "skip": False}, "task_options": {"format": "xlstm"}}


def test_differences_name_settings_as_the_command_line_does():
    first = default_config("rnn", "parity")
    second = dataclasses.replace(first, steps=first.steps + 1, task_options={"format": "xlstm"})
    assert differences(first, second) == {"task.format": ("slice", "xlstm"), "steps": (first.steps, first.steps + 1)}
    assert differences(first, dataclasses.replace(first, task_options={"format": "slice"})) == {}


def test_docstrings_tell_what_each_argument_is():
    class Thing:
        """A thing.

        Args:
            size: how ``large`` it is,
                in metres.
            left, right: neighbours.

        Raises:
            ValueError: never.
        """

    assert documented(Thing) == {"size": "how large it is, in metres.", "left": "neighbours.", "right": "neighbours."}
    assert documented(int) == {}


def test_docstrings_of_bases_tell_what_a_class_leaves_out():
    class Base:
        """A base.

        Args:
            size: how large.
            left: of the base.
        """

    class Thing(Base):
        """A thing.

        Args:
            left: of the thing.
        """

    class Silent(Thing):
        pass

    assert documented(Thing) == documented(Silent) == {"size": "how large.", "left": "of the thing."}


@pytest.mark.parametrize("layer", layers.names())
def test_every_option_of_a_layer_has_a_help_text(layer):
    texts = documented(layers.get(layer))
    assert [name for name in layer_options(layer) if not texts.get(name)] == []
