"""Parameters that stay float32."""

import torch
from torch import nn

from statetrack.layers.precision import KeepsFloat32, at_least_float32, zero_state


class Decay(KeepsFloat32, nn.Module):
    float32_parameters = ("rate",)

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor([1 + 1e-6]))
        self.weight = nn.Parameter(torch.ones(2))


def test_named_parameters_keep_their_digits():
    module = Decay()
    rate = module.rate
    module.half().bfloat16()
    assert module.rate is rate
    assert module.rate.item() == torch.tensor(1 + 1e-6).item() != 1.0
    assert module.weight.dtype == torch.bfloat16
    module.double()
    assert module.rate.dtype == torch.float64
    assert module.half().rate.dtype == torch.float64


def test_helpers_never_lower_precision():
    half, single, double = (torch.ones(1, dtype=d) for d in (torch.float16, torch.float32, torch.float64))
    assert [at_least_float32(x).dtype for x in (half, single, double)] == [torch.float32, torch.float32, torch.float64]
    assert zero_state(nn.Linear(1, 1).half(), 2, 3).dtype == torch.float32
    assert zero_state(nn.Linear(1, 1).double(), 2, 3).tolist() == [[0.0] * 3] * 2
