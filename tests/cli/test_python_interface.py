"""The short interface of ``import statetrack``."""

import ast
import re
from pathlib import Path

import pytest

import statetrack as st

HOME = Path(st.__file__).parent


def test_every_name_is_there_and_known_to_type_checkers():
    stub = ast.parse((HOME / "__init__.pyi").read_text())
    typed = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed | {"__version__"} == set(st.__all__)
    for name in st.__all__:
        assert getattr(st, name) is not None
        assert name in dir(st)


def test_folders_are_loaded_when_they_are_named():
    assert "rnn" in st.layers.layers.names()
    assert "parity" in st.tasks.tasks.names()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = st.nothing


def test_the_version_is_a_literal_that_the_build_can_read():
    assert re.search(r'^__version__ = "([^"]+)"$', (HOME / "__init__.py").read_text(), re.MULTILINE)[1] == st.__version__


def test_ten_lines(tmp_path):
    part = {"d_state": 4}
    base = st.default_config("rnn", "parity", seed=3, layer_options=part)
    small = {**base.to_dict(), "steps": 10, "batch_size": 8}
    small["evaluation"] |= {"n": 8, "low": 8, "high": 10}
    run = st.train(st.TrainConfig.from_dict(small), tmp_path / "x")
    assert set(run.evaluate([8, 12], n=16)["accuracy"]) == {8, 12}
    assert st.write_report(run, lengths=[8, 12], n=16).exists()
    assert st.compare([run], [8], n=16).groups[0].layer == "rnn"
    assert st.resume(tmp_path / "x").progress().step == 10
