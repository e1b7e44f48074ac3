"""Generation with a cache equals the greedy and beam choices made token by token without one, for every registered layer."""

import pytest
import torch
from transformers.cache_utils import DynamicCache

from statetrack.layers import layers


def greedy(model, ids, n_new):
    """Whole sequences at every step, no cache, no generate: sequences and the scores of what was chosen."""
    scores = []
    for _ in range(n_new):
        with torch.no_grad():
            scores.append(model(ids, use_cache=False).logits[:, -1])
        ids = torch.cat([ids, scores[-1].argmax(-1, keepdim=True)], dim=1)
    return ids, torch.stack(scores, 1)


@pytest.mark.parametrize("name", layers.names())
def test_greedy_choices_are_those_without_a_cache(name, tiny_model, tokens):
    model, ids = tiny_model(name), tokens(2, 5)
    expected, scores = greedy(model, ids, 5)
    options = {"max_new_tokens": 5, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    for made in (model.generate(ids, **options), model.generate(ids, prefill_chunk_size=2, **options)):
        assert torch.equal(made.sequences, expected)
        torch.testing.assert_close(torch.stack(made.logits, 1), scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", layers.names())
def test_padding_on_either_side_changes_nothing(name, tiny_model, tokens):
    model, long, short = tiny_model(name), tokens(1, 6), tokens(1, 3, seed=2)
    padded = torch.cat([long, torch.cat([torch.zeros(1, 3, dtype=torch.long), short], 1)])
    mask = (padded != 0).long()
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    made = model.generate(padded, attention_mask=mask, **options)
    assert torch.equal(made[0], greedy(model, long, 4)[0][0])
    assert torch.equal(made[1, 3:], greedy(model, short, 4)[0][0])
    right = torch.cat([short, torch.zeros(1, 3, dtype=torch.long)], 1)
    with torch.no_grad():
        alone = model(short, use_cache=False).logits
        out = model(torch.cat([long, right]), attention_mask=torch.tensor([[1] * 6, [1] * 3 + [0] * 3]), use_cache=True)
        torch.testing.assert_close(out.logits[1:, :3], alone, rtol=1e-4, atol=1e-5)
        # What follows the padding goes on from the last token before it.
        follow = tokens(2, 1, seed=3)
        mask = torch.tensor([[1] * 7, [1] * 3 + [0] * 3 + [1]])
        after = model(follow, attention_mask=mask, cache=out.cache, use_cache=True).logits
        expected = model(torch.cat([short, follow[1:]], 1), use_cache=False).logits[:, -1:]
    torch.testing.assert_close(after[1:], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", layers.names())
def test_beams_and_batches_that_change(name, tiny_model, tokens):
    model, ids = tiny_model(name), tokens(2, 4)
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "num_beams": 3}
    assert torch.equal(model.generate(ids, **options), model.generate(ids, use_cache=False, **options))
    with torch.no_grad():
        cache = model(ids, use_cache=True).cache
        cache.batch_repeat_interleave(2)
        cache.batch_select_indices(torch.tensor([2, 0, 1]))
        follow = tokens(3, 2, seed=4)
        made = model(follow, cache=cache).logits
        whole = model(torch.cat([ids[[1, 0, 0]], follow], 1), use_cache=False).logits[:, 4:]
    torch.testing.assert_close(made, whole, rtol=1e-4, atol=1e-5)


def test_sampling_follows_the_seed(tiny_model, tokens):
    model, ids = tiny_model("deltanet,flash-pd-ssm"), tokens(2, 3)
    with torch.random.fork_rng(devices=[]):
        made = []
        for use_cache in (True, False):
            torch.manual_seed(5)
            made.append(model.generate(ids, max_new_tokens=6, min_new_tokens=6, do_sample=True, use_cache=use_cache))
    assert torch.equal(*made)


def test_a_cache_made_outside_is_filled(tiny_model, tokens):
    model, ids, cache = tiny_model("pd-ssm"), tokens(1, 4), DynamicCache()
    with torch.no_grad():
        model(ids, cache=cache)
    assert cache.get_seq_length() == 4
    cache.reset()
    assert cache.get_seq_length() == 0
