"""No tensor of dense transitions anywhere in a training step, and the arithmetic of the memory benchmark."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from statetrack.bench import memory
from statetrack.bench.memory_probe import training_step
from statetrack.errors import RunError
from statetrack.layers.flash_pd_ssm import FlashPDSSM

ROWS, LENGTH, N, K = 2, 96, 16, 12


class LargestTensor(TorchDispatchMode):
    """Remembers the most entries that a tensor made under it has, inside our own operations too."""

    def __init__(self) -> None:
        super().__init__()
        self.entries, self.operations = 0, set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.operations.add(func.namespace)
        if func.namespace == "statetrack":
            with self:  # A mode is off while it handles a call; our operations are made of calls that it has to see.
                return func.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **kwargs)
        out = func(*args, **kwargs)
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


def largest_tensor(backend: str, **options: Any) -> tuple[int, set[str]]:
    layer = FlashPDSSM(8, d_state=N, dictionary_size=K, backend=backend, **options)
    with LargestTensor() as seen:
        training_step(layer, ROWS, LENGTH)
    return seen.entries, seen.operations


@pytest.mark.parametrize("ste", ["full", "active"])
@pytest.mark.parametrize("orientation", ["column", "row"])
@pytest.mark.parametrize("field", ["real", "complex"])
def test_no_dense_transitions_in_a_training_step(ste: str, orientation: str, field: str) -> None:
    entries, namespaces = largest_tensor("cpu", ste=ste, orientation=orientation, d_field=field)
    assert "statetrack" in namespaces
    assert entries >= ROWS * LENGTH * N  # The states themselves were seen.
    assert entries < ROWS * LENGTH * N * min(N, K)


def test_the_tracker_sees_dense_transitions() -> None:
    entries, _ = largest_tensor("reference")
    assert entries >= ROWS * LENGTH * N * N


def test_line_through_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(settings: dict[str, int]) -> dict[str, Any]:
        return {"L": settings["length"], "before_bytes": 10**8, "peak_bytes": 10**8 + 5000 + 100 * 3 * 4 * settings["length"]}

    monkeypatch.setattr(memory, "_run_probe", probe)
    report = memory.measure_lengths((64, 128, 256), lambda message: None, rows=3, d_model=2, d_state=4, dictionary_size=2)
    assert report["fit"] == pytest.approx({"bytes_per_state": 100.0, "intercept_bytes": 5000.0, "r2": 1.0})
    assert [e["dense_bytes"] for e in report["entries"]] == [4 * 3 * length * 4 * 4 for length in (64, 128, 256)]
    assert report["entries"][0]["bytes_per_state"] == pytest.approx(100 + 5000 / (3 * 64 * 4))
    assert list(memory.figure(report).axes[0].lines[1].get_ydata()) == pytest.approx(
        [e["step_bytes"] / 1e9 for e in report["entries"]]
    )


def test_probe_measures_a_process_of_its_own() -> None:
    found = memory._run_probe({"rows": 1, "length": 100_000, "d_model": 2, "d_state": 8, "dictionary_size": 2})
    states = 100_000 * 8 * 8
    assert found["L"] == 100_000
    assert 3 * states < found["peak_bytes"] - found["before_bytes"] < 100 * states


def test_failing_probe_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(args, 1, "", "Traceback ...\nMemoryError: no room\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(RunError, match=r"16 tokens.*MemoryError: no room"):
        memory._run_probe({"length": 16})
