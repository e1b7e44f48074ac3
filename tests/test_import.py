"""``import statetrack`` needs torch alone: with every other package absent, layers still build, run and learn."""

import subprocess
import sys
from pathlib import Path

ABSENT = [
    *("numpy", "numba", "scipy", "pandas", "rich", "tyro", "matplotlib", "tensorboard"),
    *("jaxtyping", "beartype", "hypothesis", "einops", "triton", "safetensors"),
    *("automata", "aalpy", "transformers", "peft", "datasets", "sklearn", "aeon", "submitit"),
]

PROGRAM = f"""
import importlib.util
import sys
import warnings
from importlib.machinery import PathFinder


class WithoutOptionalPackages:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in {ABSENT!r} else PathFinder.find_spec(name, path, target)


sys.meta_path[:] = [WithoutOptionalPackages if finder is PathFinder else finder for finder in sys.meta_path]
assert importlib.util.find_spec("numpy") is None
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch

import statetrack.errors
from statetrack.layers import layers, make_layer
from statetrack.scan import scan
from statetrack.structures import Diagonal

for name in layers.names():
    layer = make_layer(name, 6)
    x = torch.randn(2, 5, 6, requires_grad=True)
    y, state = layer(x)
    y.square().sum().backward()
    assert y.shape == x.shape and x.grad.isfinite().all(), name
    layer.step(x[:, 0].detach(), type(state)(*(f.detach() for f in state)))
try:
    scan(Diagonal(torch.ones(1, 2, 1, 2)), backend="cpu")
except statetrack.errors.BackendError as error:
    assert "numba is not installed" in str(error), error
else:
    raise AssertionError("the cpu backend ran without numba")
loaded = sorted(set(sys.modules) & set({ABSENT!r}))
assert not loaded, loaded
print("learned without", len({ABSENT!r}), "packages")
"""


def run(program):
    """What a fresh interpreter prints."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[1] / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_layers_run_with_torch_alone():
    assert run(PROGRAM).startswith("learned without")


def test_importing_the_package_loads_nothing_optional():
    loaded = run("import sys, torch; before = set(sys.modules); import statetrack; print(*sorted(set(sys.modules) - before))")
    assert "statetrack" in loaded
    assert not {name.partition(".")[0] for name in loaded.split()} & set(ABSENT)
