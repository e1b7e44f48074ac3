"""Where registered layers are excused from a law, with the reason; and whose gradients are surrogates."""

from __future__ import annotations

EXCLUSIONS: dict[tuple[str, str], str] = {
    ("shift", "gradients_reach_the_initial_state"): "a register that drops its last cell is all new after N tokens",
    ("transformer", "transitions_carry_the_state"): "attention has no recurrence of fixed size",
    ("path-attention", "transitions_carry_the_state"): "its transitions move the keys of a cache that grows with every token",
    ("lstm", "compiled_equals_eager"): "torch.compile does not trace torch.nn.LSTM",
    ("rnn", "compiled_equals_eager"): "torch.compile does not trace torch.nn.RNN",
}
"""``(layer, law) -> reason``."""

SURROGATE_GRADIENTS: dict[str, tuple[str, ...]] = {
    "aussm": ("phase", "in_proj", "conv"),
    "flash-pd-ssm": ("scores", "router"),
    "pd-ssm": ("scores", "router"),
    "simple-aussm": ("phase",),
}
"""Parameters that feed a hard choice; their gradient passes straight through it."""
