"""Every registered layer keeps every law, under its default options and under each value of each option."""

import ast
import inspect
from pathlib import Path

import pytest
import torch

from statetrack.layers import layer_options, layers, make_layer
from statetrack.testing import SLOW_LAWS, check_layer, excused, layer_laws, option_variants

SMALL = {"block_size": 2, "chunk_size": 4, "d_head": 4, "d_state": 4, "n_heads": 2, "n_iterations": 3, "dictionary_size": 3}
"""Sizes at which the laws are checked, for the layers that have such an option."""

OTHER_VALUES = {
    "block_size": 4,
    "chunk_size": 64,
    "d_conv": 2,
    "d_head": 2,
    "d_hidden": 1,
    "d_state": 3,
    "dictionary_scale": 1.0,
    "dictionary_size": 2,
    "dt_rank": 2,
    "expand": 1,
    "expand_v": 3,
    "init_std": 0.25,
    "magnitude_bias": None,
    "max_phase": 1.0,
    "n_blocks": 2,
    "n_heads": 1,
    "n_householder": 3,
    "n_iterations": 2,
    "n_ones": 0,
    "n_zeros": 0,
    "power": 1.4,
    "r_max": 0.9,
    "r_min": 0.5,
    "rank": 2,
    "phase_levels": 8,
    "rope_base": 100.0,
    "temperature": 0.5,
    "temperature_end": 0.1,
    "time_step": 0.5,
    "w_rank": 2,
}
"""A second value for every option that is a number. A layer with a new one adds it here."""

OTHER_VALUES_OF = {("mamba3", "d_state"): 6}
"""Where a layer refuses that value."""

COMPANIONS = {
    "additive_input": {"initial_state": "first"},
    "d_state": {"block_size": 1},
    "dictionary_scale": {"dictionary_init": "permutation"},
}
"""What has to change with an option, where a layer has that too."""

CORE_LAWS = (
    "steps_equal_forward",
    "any_split_equals_one_pass",
    "packed_documents_equal_a_loop",
    "padding_changes_nothing",
    "gradients_are_derivatives",
    "every_parameter_gets_a_gradient",
    "transitions_carry_the_state",
    "backends_agree",
    "float64_stays_float64",
    "half_precision_keeps_states_in_float32",
    "later_tokens_do_not_matter",
    "linear_maps_can_be_wrapped",
)
"""What is checked for every option; ``make test-slow`` checks the rest too."""

COMPILED = ("flash-pd-ssm", "mamba", "pd-ssm")
"""Layers compiled in the default run; ``make test-slow`` compiles all."""


def base_options(name):
    return {key: value for key, value in SMALL.items() if key in layer_options(name)}


def option_sets(name):
    """The base options with one other value at a time."""
    options = layer_options(name)
    # Layers run on the triton backend in the tests of its kernels, and where there is a GPU.
    changes = [change for change in option_variants(layers.get(name)) if change and change != {"backend": "triton"}]
    changes += [{key: OTHER_VALUES_OF.get((name, key), OTHER_VALUES[key])} for key in options if key in OTHER_VALUES]
    for change in changes:
        companions = {k: v for key in change for k, v in COMPANIONS.get(key, {}).items() if k in options}
        yield change, {**base_options(name), **companions, **change}


def surrogates(options):
    """Parameters that feed a hard choice because an option says so."""
    return ("diagonal.phase",) if options.get("phase_levels") else ()


VARIANTS = [
    pytest.param(name, options, id="-".join([name, *(f"{k}={v}" for k, v in change.items())]))
    for name in layers.names()
    for change, options in option_sets(name)
]


@pytest.mark.parametrize("name", layers.names())
def test_default_options_keep_every_law(name):
    check_layer(layers.get(name), **base_options(name))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_every_option_keeps_the_core_laws(name, options):
    check_layer(layers.get(name), laws=CORE_LAWS, surrogate=surrogates(options), **options)


@pytest.mark.parametrize("name", COMPILED)
def test_layers_compile(name):
    check_layer(layers.get(name), laws=SLOW_LAWS, **base_options(name))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_every_option_keeps_every_law(name, options):
    check_layer(layers.get(name), laws=layer_laws(), surrogate=surrogates(options), **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", layers.names())
def test_long_streams_do_not_drift(name):
    """2,000 tokens in one pass against pieces of many lengths and single steps at the end."""
    torch.manual_seed(0)
    layer = make_layer(name, 6, **base_options(name)).double()
    x = torch.randn(2, 2000, 6, dtype=torch.float64)
    with torch.no_grad():
        expected, _ = layer(x)
        parts, state, start = [], layer.initial_state(2), 0
        for size in (1, 63, 64, 65, 700, 1000, 87):
            y, state = layer(x[:, start : start + size], state)
            parts.append(y)
            start += size
        for t in range(start, 2000):
            y, state = layer.step(x[:, t], state)
            parts.append(y.unsqueeze(1))
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", layers.names())
def test_every_option_is_varied(name):
    varied = {key for change, _ in option_sets(name) for key in change}
    assert varied >= set(layer_options(name)), "options without a second value; add one to OTHER_VALUES"


@pytest.mark.parametrize("name", layers.names())
def test_every_layer_has_an_oracle_test(name):
    """``test_<name>.py`` imports the layer's class and compares something with something."""
    path = Path(__file__).parent / f"test_{name.replace('-', '_')}.py"
    assert path.exists(), f"{name} needs {path.name}"
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert layers.get(name).__name__ in imported
    for test in (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")):
        text = ast.unparse(test)
        assert "assert" in text or "pytest.raises" in text, f"{path.name}::{test.name} asserts nothing"


@pytest.mark.parametrize("name", layers.names())
def test_constructors_name_everything(name):
    """One positional width, everything else by keyword, no catch-all that would swallow a misspelt option."""
    _, width, *rest = inspect.signature(layers.get(name).__init__).parameters.values()
    assert width.name == "d_model"
    assert all(p.kind is p.KEYWORD_ONLY for p in rest)
    assert len(rest) <= 20


def test_excuses_have_reasons_and_subjects():
    from statetrack.testing.exclusions import EXCLUSIONS, SURROGATE_GRADIENTS

    for (layer, law), reason in EXCLUSIONS.items():
        assert layer in layers.names()
        assert law in layer_laws()
        assert len(reason) > 10
        assert excused(layers.get(layer), law) == reason
    assert set(SURROGATE_GRADIENTS) <= set(layers.names())
