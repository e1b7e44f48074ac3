"""Reading the state of an automaton off a language model at the end of each sentence of a story.

    class of sentence s = argmax (W h_t + b),   t = last token of sentence s,   h = last hidden state of the model

Source: natural-language automata of PD-SSM (arXiv 2509.22284): a frozen model, a trained layer in it, a linear readout.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf.frozen import FrozenPart
from statetrack.tasks.sentences import Sentences


class Stories(NamedTuple):
    """Letters: S = sentences after the opening, at most.

    Attributes:
        input_ids: ``(B, L)`` int64, right-padded.
        attention_mask: ``(B, L)`` int64.
        targets: ``(B, L)`` int64, the class at the last token of each sentence, the opening included; -100 elsewhere.
        ends: ``(B, S + 1)`` int64, those tokens; -1 after the last sentence.
        states: ``(B, L, E)``, what the first trained layer of a model is given; None where it has not been computed.
    """

    input_ids: Tensor
    attention_mask: Tensor
    targets: Tensor
    ends: Tensor
    states: Tensor | None = None

    @property
    def last(self) -> Tensor:
        """``(B,)``, the last token of each story."""
        return self.ends.amax(1)

    def begin(self, lengths: Sequence[int] | Tensor) -> Stories:
        """The first sentences of each story, as many as ``lengths`` says.

        Raises:
            InvalidInputError: a story has fewer, or ``lengths`` is not one for each.
        """
        wanted = torch.as_tensor(lengths)
        told = (self.ends >= 0).sum(1) - 1
        if wanted.shape != told.shape or bool(((wanted < 0) | (wanted > told)).any()):
            raise InvalidInputError(f"Stories of {told.tolist()} sentences have no beginnings of {wanted.tolist()}.")
        last = self.ends.gather(1, wanted[:, None])
        width, most = int(last.max()) + 1, int(wanted.max()) + 1
        kept = torch.arange(width) <= last
        return Stories(
            self.input_ids[:, :width],
            self.attention_mask[:, :width] * kept,
            self.targets[:, :width].masked_fill(~kept, -100),
            self.ends[:, :most].masked_fill(torch.arange(most) > wanted[:, None], -1),
            None if self.states is None else self.states[:, :width],
        )

    def pick(self, rows: Sequence[int] | Tensor) -> Stories:
        """Some of the stories."""
        index = torch.as_tensor(rows)
        states = None if self.states is None else self.states[index]
        return Stories(self.input_ids[index], self.attention_mask[index], self.targets[index], self.ends[index], states)


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
    found = torch.full((len(texts), max(map(len, ends))), -1)
    for i, (tokens, spans) in enumerate(zip(made["input_ids"], made["offset_mapping"], strict=True)):
        ids[i, : len(begin) + len(tokens)] = torch.tensor([*begin, *tokens])
        mask[i, : len(begin) + len(tokens)] = 1
        stops = np.array([stop for _, stop in spans])
        at = len(begin) + np.searchsorted(stops, np.array(ends[i]) + 1)
        targets[i, torch.from_numpy(at)] = torch.tensor(classes[i])
        found[i, : len(at)] = torch.from_numpy(at)
    return Stories(ids, mask, targets, found)


def join(parts: Sequence[Stories]) -> Stories:
    """One set of stories, padded to the longest. Raises ``InvalidInputError`` if some have states and others have none."""
    known = [part.states for part in parts if part.states is not None]
    if not parts or len(known) not in (0, len(parts)):
        raise InvalidInputError("Stories with states and others without, or none at all, make no set.")
    width, most = (max(getattr(part, name).shape[1] for part in parts) for name in ("input_ids", "ends"))

    def padded(tensors: Sequence[Tensor], to: int, value: int = 0) -> Tensor:
        made = tensors[0].new_full((sum(map(len, tensors)), to, *tensors[0].shape[2:]), value)
        place = 0
        for tensor in tensors:
            made[place : place + len(tensor), : tensor.shape[1]] = tensor
            place += len(tensor)
        return made

    return Stories(
        padded([part.input_ids for part in parts], width),
        padded([part.attention_mask for part in parts], width),
        padded([part.targets for part in parts], width, -100),
        padded([part.ends for part in parts], most, -1),
        padded(known, width) if known else None,
    )


def end_tokens(stories: Stories) -> list[int]:
    """Ids of the tokens that end sentences."""
    places = stories.ends.clamp(min=0)
    return stories.input_ids.gather(1, places)[stories.ends >= 0].unique().tolist()


class SentenceReader(nn.Module):
    """A language model and a linear readout of its last hidden state.

    Args:
        model: a causal language model of transformers, with or without our layers or an adapter.
        n_classes: number of classes.
        frozen: its lower part, if it need not be run for stories that have ``states``.
    """

    def __init__(self, model: Any, n_classes: int, frozen: FrozenPart | None = None) -> None:
        super().__init__()
        self.model, self.frozen = model, frozen
        self.head = nn.Linear(model.config.hidden_size, n_classes)

    def forward(self, stories: Stories) -> Tensor:
        """Scores ``(B, L, n_classes)``."""
        causal = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        known = None if self.frozen is None or stories.states is None else self.frozen.given(stories.states)
        with known or nullcontext():
            hidden = causal.base_model(input_ids=stories.input_ids, attention_mask=stories.attention_mask, use_cache=False)
        scores: Tensor = self.head(hidden.last_hidden_state.float())
        return scores

    def loss(self, stories: Stories) -> tuple[Tensor, float]:
        """Mean loss over all sentences, and the share of stories whose last state is right."""
        scores = self(stories)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), stories.targets.flatten(), ignore_index=-100)
        return loss, _right(scores, stories).gather(1, _last(stories)).float().mean().item()

    @torch.no_grad()
    def right(self, stories: Stories) -> Tensor:
        """``(B, S + 1)`` bool, whether the state after the opening and each sentence is found: exact match of the answer."""
        return _right(self(stories), stories)

    def accuracy(self, stories: Stories) -> float:
        """Share of stories whose last state is found."""
        return self.right(stories).gather(1, _last(stories)).float().mean().item()


def _last(stories: Stories) -> Tensor:
    return stories.ends.argmax(1, keepdim=True)


def _right(scores: Tensor, stories: Stories) -> Tensor:
    places = stories.ends.clamp(min=0)
    return (scores.argmax(-1).gather(1, places) == stories.targets.gather(1, places)) & (stories.ends >= 0)
