"""Where registered layers are excused from a law, with the reason; and whose gradients are surrogates."""

from __future__ import annotations

EXCLUSIONS: dict[tuple[str, str], str] = {
    ("transformer", "transitions_carry_the_state"): "attention has no recurrence of fixed size",
    ("lstm", "compiled_equals_eager"): "torch.compile does not trace torch.nn.LSTM",
    ("rnn", "compiled_equals_eager"): "torch.compile does not trace torch.nn.RNN",
}
"""``(layer, law) -> reason``."""

SURROGATE_GRADIENTS: dict[str, tuple[str, ...]] = {
    "flash-pd-ssm": ("scores", "router"),
    "pd-ssm": ("scores", "router"),
}
"""Parameters that feed a hard choice; their gradient passes straight through it."""
