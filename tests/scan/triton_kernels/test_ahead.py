"""Kernels compiled ahead of time for GPUs that need not be there: no spills, little shared memory, no atomics."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from statetrack.errors import BackendError

triton = pytest.importorskip("triton", reason="triton is not installed")

PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"


def rows(form, *sizes):
    """What the report says, from a process that compiles instead of interpreting."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "statetrack.scan.triton.report", "--json", form, *map(str, sizes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


CASES = [
    pytest.param("column", (128,), marks=[]),
    pytest.param("column", (16, 32, 64), marks=pytest.mark.slow),
    pytest.param("row", (16, 32, 64, 128), marks=pytest.mark.slow),
    pytest.param("diagonal", (16, 32, 64, 128), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("form", "sizes"), CASES)
def test_kernels_fit_on_the_gpus_they_are_for(form, sizes):
    found = rows(form, *sizes)
    kernels = {(row["direction"], row["kernel"]) for row in found}
    assert {("forward", "composites"), ("forward", "carries"), ("forward", "replay")} <= kernels
    assert {("backward", "composites"), ("backward", "carries"), ("backward", "replay_backward")} <= kernels
    assert {row["capability"] for row in found} == {80, 90}
    for row in found:
        needs = row["resources"]
        assert needs["spilled"] == 0 and needs["mix"]["spill"] == 0
        assert needs["registers"] <= 168
        assert needs["shared"] <= 28 * row["n"]
        assert needs["mix"]["atomic"] == 0
        assert needs["mix"]["global"] > 0
    if 128 in sizes:
        check_published(form, [row for row in found if row["n"] == 128])


def test_the_fused_generator_fits_too():
    found = rows("generator", 128)
    assert {(row["direction"], row["kernel"]) for row in found} == {("forward", "generate"), ("backward", "generate_backward")}
    for row in found:
        needs = row["resources"]
        assert needs["spilled"] == 0 and needs["mix"]["spill"] == 0
        assert needs["registers"] <= 128
        assert needs["shared"] <= 28 * 128
        assert needs["mix"]["atomic"] == 0
    check_published("generator", found)


def check_published(form, found):
    """The table in the documentation says the same, if it comes from this compiler."""
    page = PAGE.read_text(encoding="utf-8")
    if f"Compiled by Triton {triton.__version__}." not in page:
        return
    by_kernel = {}
    for row in found:
        needs = row["resources"]
        by_kernel.setdefault((row["direction"], row["kernel"]), []).extend(needs[k] for k in ("registers", "spilled", "shared"))
    for (direction, kernel), numbers in by_kernel.items():
        assert f"| {form} | {direction} | `{kernel}` | {' | '.join(map(str, numbers))} |" in page


def test_nothing_is_compiled_while_kernels_are_interpreted(device):
    if device.type == "cuda":
        pytest.skip("kernels are compiled on this machine")
    from statetrack.scan.triton.ahead import compile_ahead
    from statetrack.scan.triton.report import launches

    (_, launch), *_ = launches("diagonal", torch.float32, 16)
    with pytest.raises(BackendError, match="cannot be compiled while TRITON_INTERPRET=1"):
        compile_ahead(launch, 90)
