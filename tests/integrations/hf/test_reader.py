"""Stories and what is read of them: labels stand where sentences end, and tell what the automaton does."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from statetrack.integrations.hf import insert_layers
from statetrack.integrations.hf.pretraining.corpus import train_tokenizer
from statetrack.integrations.hf.reader import SentenceReader, tell
from statetrack.recipes.words import Budget, train_reader
from statetrack.tasks.sentences import Sentences
from statetrack.training.config import LengthConfig


@pytest.fixture(scope="module")
def tokenizer():
    told = Sentences(theme="parity").told
    return train_tokenizer([s for letter in (*told.train, *told.test) for s in letter], 400)


def backbone(vocabulary):
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(config)


def test_labels_stand_at_the_ends_of_sentences(tokenizer):
    task = Sentences(theme="parity")
    stories = tell(task, tokenizer, [3, 0, 5], np.random.default_rng(0))
    letter_of = {s: k for k, told in enumerate(task.told.train) for s in told}
    for row, n in enumerate((3, 0, 5)):
        places = (stories.targets[row] != -100).nonzero().squeeze(1).tolist()
        assert len(places) == n + 1 and places[-1] == int(stories.last[row])
        state, begin = 0, places[0] + 1
        assert tokenizer.decode(stories.input_ids[row, 1:begin]) == task.told.opening
        for place in places[1:]:
            sentence = tokenizer.decode(stories.input_ids[row, begin : place + 1]).strip()
            state ^= letter_of[sentence]
            assert int(stories.targets[row, place]) == state
            begin = place + 1
        assert int(stories.attention_mask[row].sum()) == begin


def test_padding_does_not_change_what_is_read(tokenizer):
    task = Sentences(theme="parity")
    model = insert_layers(backbone(len(tokenizer)), d_state=4)
    reader = SentenceReader(model, 2).eval()
    with torch.no_grad():
        alone = reader(tell(task, tokenizer, [2], np.random.default_rng(1)))
        beside = reader(tell(task, tokenizer, [2, 7], np.random.default_rng(1)))
    torch.testing.assert_close(beside[:1, : alone.shape[1]], alone, rtol=1e-4, atol=1e-5)


def test_training_reaches_what_is_inserted_alone(tokenizer):
    model = backbone(len(tokenizer)).requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    reader = SentenceReader(insert_layers(model, where=[-1], d_state=4), 2)
    budget = Budget(3, 4, LengthConfig(low=1, high=4, start=2), (2,), 8)
    assert train_reader(reader, Sentences(theme="parity"), tokenizer, budget) == 2
    named = dict(model.named_parameters())
    assert all(torch.equal(named[name], value) for name, value in before.items())
    changed = [name for name, parameter in named.items() if name not in before and parameter.grad is not None]
    assert any("router" in name for name in changed)
