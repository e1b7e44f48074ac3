"""Reading the state of an automaton off a language model at the end of each sentence of a story.

    class of sentence s = argmax (W h_t + b),   t = last token of sentence s,   h = last hidden state of the model

Source: natural-language automata of PD-SSM (arXiv 2509.22284): a frozen model, a trained layer in it, a linear readout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from statetrack.tasks.sentences import Sentences


class Stories(NamedTuple):
    """Attributes:
    input_ids: ``(B, L)`` int64, right-padded.
    attention_mask: ``(B, L)`` int64.
    targets: ``(B, L)`` int64, the class at the last token of each sentence, the opening included; -100 elsewhere.
    last: ``(B,)`` int64, the last token of each story.
    """

    input_ids: Tensor
    attention_mask: Tensor
    targets: Tensor
    last: Tensor


def tell(task: Sentences, tokenizer: Any, lengths: Sequence[int], generator: np.random.Generator) -> Stories:
    """Stories of some numbers of sentences, with the class after each.

    The state that a label tells depends on what was said alone: it is computed by the automaton of the task.
    """
    told, automaton = task.told, task.told.automaton
    texts, classes, ends = [], [], []
    for n in lengths:
        letters = generator.integers(0, automaton.n_symbols, size=int(n))
        text, state = told.opening, automaton.start
        row, places = [int(automaton.outputs[state])], [len(text) - 1]
        for letter in letters.tolist():
            choices = task.sentences[letter]
            text += " " + choices[int(generator.integers(len(choices)))]
            state = int(automaton.transitions[state, letter])
            row.append(int(automaton.outputs[state]))
            places.append(len(text) - 1)
        texts.append(text)
        classes.append(row)
        ends.append(places)
    made = tokenizer(texts, return_offsets_mapping=True, add_special_tokens=False)
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    width = len(begin) + max(map(len, made["input_ids"]))
    ids = torch.full((len(texts), width), tokenizer.pad_token_id or 0)
    mask, targets = torch.zeros_like(ids), torch.full_like(ids, -100)
    last = torch.zeros(len(texts), dtype=torch.long)
    for i, (tokens, spans) in enumerate(zip(made["input_ids"], made["offset_mapping"], strict=True)):
        ids[i, : len(begin) + len(tokens)] = torch.tensor([*begin, *tokens])
        mask[i, : len(begin) + len(tokens)] = 1
        stops = np.array([stop for _, stop in spans])
        at = len(begin) + np.searchsorted(stops, np.array(ends[i]) + 1)
        targets[i, torch.from_numpy(at)] = torch.tensor(classes[i])
        last[i] = int(at[-1])
    return Stories(ids, mask, targets, last)


class SentenceReader(nn.Module):
    """A language model and a linear readout of its last hidden state.

    Args:
        model: a causal language model of transformers, with or without our layers or an adapter.
        n_classes: number of classes.
    """

    def __init__(self, model: Any, n_classes: int) -> None:
        super().__init__()
        self.model = model
        self.head = nn.Linear(model.config.hidden_size, n_classes)

    def forward(self, stories: Stories) -> Tensor:
        """Scores ``(B, L, n_classes)``."""
        causal = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        hidden = causal.base_model(input_ids=stories.input_ids, attention_mask=stories.attention_mask, use_cache=False)
        scores: Tensor = self.head(hidden.last_hidden_state.float())
        return scores

    def loss(self, stories: Stories) -> tuple[Tensor, float]:
        """Mean loss over all sentences, and the share of last ones that are right."""
        scores = self(stories)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), stories.targets.flatten(), ignore_index=-100)
        return loss, self._right(scores, stories).float().mean().item()

    @torch.no_grad()
    def accuracy(self, stories: Stories) -> float:
        """Share of stories whose last state is right: exact match of the answer."""
        return self._right(self(stories), stories).float().mean().item()

    def _right(self, scores: Tensor, stories: Stories) -> Tensor:
        rows = torch.arange(len(stories.last))
        return scores[rows, stories.last].argmax(-1) == stories.targets[rows, stories.last]
