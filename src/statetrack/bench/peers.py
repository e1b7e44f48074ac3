"""Layers of other libraries, at the sizes their authors use for the same width; each is imported only when it is built."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from statetrack.bench.runner import Contender, NotRun, Runner

_HEAD = 64


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NotRun(
            f"{package} is not installed" if error.name == package.replace("-", "_") else f"{package}: {error}"
        ) from None


class _LSTM(Runner):
    """torch's own LSTM of one layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.cell(x)[0]
        return y

    def start(self, batch_size: int) -> Any:
        zero = next(self.parameters()).new_zeros(1, batch_size, self.cell.hidden_size)
        return zero, zero

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = self.cell(x_t.unsqueeze(1), state)
        return y.squeeze(1), state


class _Attention(Runner):
    """Causal attention by torch's fused kernel; the cache grows with every token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % _HEAD:
            raise NotRun(f"its heads have {_HEAD} channels, and the width {width} is no multiple")
        self.n_heads = width // _HEAD
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self._heads(x)
        return self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))

    def start(self, batch_size: int) -> Any:
        empty = next(self.parameters()).new_zeros(batch_size, self.n_heads, 0, _HEAD)
        return empty, empty

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        q, *new = self._heads(x_t.unsqueeze(1))
        k, v = (torch.cat(pair, dim=2) for pair in zip(state, new, strict=True))
        return self.out(scaled_dot_product_attention(q, k, v).flatten(1)), (k, v)

    def _heads(self, x: Tensor) -> list[Tensor]:
        return list(self.qkv(x).unflatten(-1, (3, self.n_heads, _HEAD)).permute(2, 0, 3, 1, 4).unbind(0))


class _Transformers(Runner):
    """A mixer of transformers, with the library's own cache; on a CPU it runs its PyTorch path."""

    def __init__(self, config: Any, mixer: type[nn.Module]) -> None:
        super().__init__()
        self.config, self.mixer = config, mixer(config, layer_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.mixer(x)
        return y[0] if isinstance(y, tuple) else y

    def start(self, batch_size: int) -> Any:
        return _library("transformers", "transformers").DynamicCache(config=self.config)

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        y = self.mixer(x_t.unsqueeze(1), cache=state)
        return (y[0] if isinstance(y, tuple) else y).squeeze(1), state


def _mamba2(width: int) -> Runner:
    library = _library("transformers.models.mamba2", "transformers")
    config = library.Mamba2Config(
        hidden_size=width,
        state_size=128,
        head_dim=_HEAD,
        num_heads=2 * width // _HEAD,
        n_groups=1,
        num_hidden_layers=1,
    )
    return _Transformers(config, _library("transformers.models.mamba2.modeling_mamba2", "transformers").Mamba2Mixer)


def _gated_deltanet(width: int) -> Runner:
    library = _library("transformers.models.qwen3_next", "transformers")
    if width % 128:
        raise NotRun(f"its heads have 128 channels, and the width {width} is no multiple")
    config = library.Qwen3NextConfig(
        hidden_size=width,
        linear_num_key_heads=width // 128,
        linear_num_value_heads=2 * width // 128,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
    )
    module = _library("transformers.models.qwen3_next.modeling_qwen3_next", "transformers")
    return _Transformers(config, module.Qwen3NextGatedDeltaNet)


class _MambaPy(Runner):
    """The block of mambapy with its parallel scan."""

    def __init__(self, width: int) -> None:
        super().__init__()
        library = _library("mambapy.mamba", "mambapy")
        self.block = library.MambaBlock(library.MambaConfig(d_model=width, n_layers=1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x)
        return y

    def start(self, batch_size: int) -> Any:
        config = self.block.config
        return None, next(self.parameters()).new_zeros(batch_size, config.d_inner, config.d_conv - 1)

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, state = self.block.step(x_t, state)
        return y, state


def _needs_gpu(package: str, name: str, kernels: str) -> Contender:
    def refuse(width: int) -> Runner:
        raise NotRun(f"its kernels are {kernels} and need a GPU; this benchmark measures on a CPU")

    return Contender(name, package, "", refuse)


PEERS = (
    Contender("LSTM", "torch", "one layer, hidden size E", _LSTM),
    Contender("attention", "torch", f"causal, heads of {_HEAD}, fused kernel", _Attention, streams=False),
    Contender("Mamba-2", "transformers", f"state 128, 2 E channels in heads of {_HEAD}, PyTorch path", _mamba2),
    Contender("gated DeltaNet", "transformers", "Qwen3-Next, keys E, values 2 E, heads of 128, PyTorch path", _gated_deltanet),
    Contender("Mamba", "mambapy", "state 16, 2 E channels, parallel scan", _MambaPy),
    _needs_gpu("fla", "gated DeltaNet", "Triton"),
    _needs_gpu("mamba-ssm", "Mamba-2", "CUDA and Triton"),
    _needs_gpu("accelerated-scan", "scan", "CUDA and Triton"),
)
