"""The shape annotations of public functions hold, and refuse what does not fit: checked at run time in a process of its own.

The import hook decorates functions, which would break ``fullgraph`` compilation in the other tests.
"""

import subprocess
import sys

from statetrack.layers import layers

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

HOOKED = ["statetrack.scan.api", "statetrack.scan.straight_through", "statetrack.layers.base", "statetrack.models.tagger"]
with install_import_hook(HOOKED, "beartype.beartype"):
    import torch
    from statetrack.layers import layers, make_layer
    from statetrack.models import ModelConfig, Tagger
    from statetrack.scan import scan, straight_through
    from statetrack.structures import ColumnOneHot, Diagonal

checked = 0
for name in layers:
    layer = make_layer(name, 6)
    y, state = layer(torch.randn(2, 5, 6))
    y, state = layer(torch.randn(2, 5, 6), state, mask=torch.ones(2, 5, dtype=torch.bool))
    y, state = layer.step(torch.randn(2, 6), state)
    y, _ = layer(torch.randn(1, 5, 6), cu_seqlens=torch.tensor([0, 2, 2, 5]))
    scores, _ = Tagger(name, 4, 3, ModelConfig(d_model=6))(torch.zeros(2, 5, dtype=torch.long))
    assert scores.shape == (2, 5, 3)
    checked += 1
for dtype in (torch.float64, torch.complex64):
    one = Diagonal(torch.ones(1, 4, 2, 3, dtype=dtype))
    scan(one, torch.ones(1, 4, 2, 3, dtype=dtype), torch.ones(2, 2, 3, dtype=dtype), cu_seqlens=torch.tensor([0, 1, 4]))
straight_through(torch.randn(3, 4), -1, 0.5)
for wrong in (
    lambda: scan(one, torch.ones(1, 4, 3)),
    lambda: straight_through(torch.ones(3, dtype=torch.long), -1),
    lambda: make_layer("rnn", 6)(torch.randn(2, 5, 6), mask=torch.ones(2, 5)),
):
    try:
        wrong()
    except TypeCheckError:
        checked += 1
print("checked", checked)
"""


def test_annotations_hold_and_refuse():
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"checked {len(list(layers)) + 3}"
