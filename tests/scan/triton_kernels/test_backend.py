"""Choosing the backend, refusing it with a reason, and refusing a device on which kernels are wrong."""

import logging
import subprocess
import sys

import pytest
import torch

from statetrack.errors import BackendError, InvalidInputError
from statetrack.scan import backends, scan
from statetrack.scan.backends import _announce, _choose
from statetrack.scan.triton import availability
from statetrack.structures import ColumnOneHot, Dense, Diagonal, RoutedOneHot

HERE = pytest.mark.skipif(availability.TRITON_MISSING, reason="triton is not installed")
DECAY = Diagonal(torch.ones(1, 2, 1, 2))


def wide(n):
    return ColumnOneHot(torch.zeros(1, 1, 1, n, dtype=torch.int16), torch.ones(1, 1, 1, n))


@HERE
def test_it_is_the_automatic_choice_on_a_gpu_for_what_it_can_scan(caplog):
    _announce.cache_clear()
    maps = torch.zeros(1, 2, 3, dtype=torch.long)
    routed = RoutedOneHot(maps, torch.zeros(1, 4, 1, dtype=torch.long), torch.ones(1, 4, 1, 3))
    with caplog.at_level(logging.INFO, logger="statetrack.scan"):
        assert [_choose(a, "cuda", "auto") for a in (DECAY, wide(1024), routed)] == ["triton"] * 3
        assert _choose(wide(1025), "cuda", "auto") == "tree"
        assert _choose(Dense(torch.eye(2).expand(1, 2, 1, 2, 2)), "cuda", "auto") == "reference"
        assert _choose(DECAY, "meta", "auto") == "tree"
    assert caplog.messages[0] == "scan of Diagonal runs on the triton backend"
    assert any("exceeds what one of its programs holds (1024)" in message for message in caplog.messages)


@HERE
@pytest.mark.parametrize("setting", [None, "0"])
def test_on_cpu_tensors_it_wants_the_interpreter(monkeypatch, setting):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if setting is not None:
        monkeypatch.setenv("TRITON_INTERPRET", setting)
    with pytest.raises(BackendError, match=r"tensors are on 'cpu', and Triton's interpreter is off \(TRITON_INTERPRET=1"):
        scan(DECAY, backend="triton")


def test_without_triton_it_says_what_to_install_and_nothing_else_needs_it(monkeypatch):
    monkeypatch.setattr(availability, "TRITON_MISSING", True)
    with pytest.raises(BackendError, match=r"triton is not installed \(pip install 'statetrack\[gpu\]'\)"):
        scan(DECAY, backend="triton")
    assert _choose(DECAY, "cuda", "auto") == "tree"
    assert _choose(DECAY, "cpu", "auto") == "cpu"


@HERE
def test_it_has_no_kernel_for_dense_transitions():
    with pytest.raises(BackendError, match="no kernel for Dense"):
        scan(Dense(torch.eye(2).expand(1, 2, 1, 2, 2)), backend="triton")
    with pytest.raises(BackendError, match="state size 1025 exceeds"):
        scan(wide(1025), backend="triton")


def test_what_the_backward_pass_keeps_is_named_and_for_this_backend_alone():
    with pytest.raises(InvalidInputError, match="save 'nothing' is not one of states, carries"):
        scan(DECAY, save="nothing")
    with pytest.raises(BackendError, match="for the triton backend, and this scan runs on 'cpu'"):
        scan(DECAY, save="carries", backend="cpu")
    assert "triton" in backends.Backend.__args__


@HERE
@pytest.mark.parametrize("form", ["diagonal", "row", "column"])
def test_the_known_answer_is_right_here(device, form):
    from statetrack.scan.triton.selfcheck import _TOLERANCE, known_answer

    errors = known_answer(device, form, form != "row", 3)
    assert errors.keys() == {"states", "g_value", "g_inputs", "g_initial"}
    assert max(errors.values()) < _TOLERANCE / 10


@HERE
@pytest.mark.parametrize("wrong", [1e-2, float("nan")])
def test_a_device_on_which_kernels_are_wrong_is_refused(monkeypatch, wrong):
    from statetrack.scan.triton import selfcheck

    selfcheck._verify.cache_clear()
    answer = {"states": 1e-7, "g_value": wrong}
    monkeypatch.setattr(selfcheck, "known_answer", lambda *_: answer)
    with pytest.raises(BackendError, match=rf"row scans give wrong values on cpu.*g_value by {wrong:.1e}\. Use backend='tree'"):
        selfcheck._verify(torch.device("cpu"), "row", False, False)
    answer["g_value"] = 0.0
    selfcheck._verify(torch.device("cpu"), "row", False, False)
    selfcheck._verify.cache_clear()


@HERE
def test_chunks_are_long_unless_there_are_too_few_of_them():
    from statetrack.scan.triton.launch import default_chunk

    assert default_chunk(256, 256 * 40, 16, False) == 40
    assert default_chunk(4, 4 * 20, 1, False) == 20
    assert default_chunk(8, 8 * 4096, 16, False) == 128
    assert default_chunk(1, 4096, 16, False) == 32
    assert default_chunk(64, 4096, 64, True) == 64
    assert default_chunk(0, 0, 3, False) == 1


def test_importing_the_package_imports_neither_triton_nor_the_compiler():
    code = "import sys, statetrack, statetrack.scan; print([m for m in ('triton', 'torch._dynamo') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
