"""The upper part alone, fed what the lower part gave once, is the whole model: outputs, gradients, beginnings of a text."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf import insert_layers
from statetrack.integrations.hf.frozen import FrozenPart
from statetrack.integrations.hf.insertion import StandIn

SIZES = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.3)),
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SIZES, num_key_value_heads=1, use_sliding_window=True, sliding_window=4, max_window_layers=2)
    ),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=4, n_head=2, n_inner=24)),
}


def made(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS[name]().train()
        insert_layers(model, "mamba2", where=[2], d_state=4, d_head=8)
        torch.nn.init.normal_(model.get_submodule(f"{path_of(model)}.2.statetrack_inserted.out").weight, std=0.3)
        ids = torch.randint(0, 40, (3, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return model, ids, mask


def path_of(model):
    return "transformer.h" if isinstance(model, GPT2LMHeadModel) else "model.layers"


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_are_those_of_the_whole_model(name):
    model, ids, mask = made(name)
    model.eval()
    frozen = FrozenPart(model, -2)
    layers = list(frozen.layers)
    states = frozen.states(ids, mask)
    found = []
    for known in (False, True):
        if known:
            with frozen.given(states):
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        else:
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        model.zero_grad()
        (logits[mask.bool()] ** 2).sum().backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}
        found.append((logits[mask.bool()].detach(), gradients))
    (whole, wanted), (upper, gradients) = found
    assert torch.equal(upper, whole)
    assert len(wanted) > 4 and all(torch.equal(gradients[name], wanted[name]) for name in wanted)
    assert list(frozen.layers) == layers


def test_a_shorter_text_has_the_beginning_of_the_states():
    model, ids, _ = made("llama")
    frozen = FrozenPart(model, 2)
    torch.testing.assert_close(frozen.states(ids)[:, :5], frozen.states(ids[:, :5]), rtol=1e-5, atol=1e-6)


def test_the_lower_part_is_not_run_again():
    model, ids, _ = made("llama")
    frozen = FrozenPart(model, 2)
    states = frozen.states(ids)
    for parameter in model.model.layers[1].parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    with frozen.given(states):
        assert model(input_ids=ids, use_cache=False).logits.isfinite().all()
    assert model(input_ids=ids, use_cache=False).logits.isnan().all()


def test_the_model_stays_as_it_was():
    model, ids, mask = made("llama")
    model.model.layers[0].eval()
    frozen = FrozenPart(model, 2)
    frozen.states(ids, mask)
    assert model.training and not model.model.layers[0].training and model.model.layers[3].training
    with pytest.raises(ZeroDivisionError), frozen.given(torch.zeros(1)):
        raise ZeroDivisionError
    assert not any(isinstance(layer, StandIn) for layer in model.model.layers)


@pytest.mark.parametrize("first", [0, 4, -4, True, 1.0])
def test_first_names_a_layer_with_others_below(first):
    with pytest.raises(InvalidInputError, match="first must name one of the decoder layers 1 to 3"):
        FrozenPart(made("llama")[0], first)


def test_what_is_trained_below_is_refused():
    model = made("llama")[0]
    with pytest.raises(InvalidInputError, match="Below layer 3 decoder layer 2 is trained"):
        FrozenPart(model, 3)
    model.get_input_embeddings().requires_grad_(True)
    with pytest.raises(InvalidInputError, match="Below layer 2 the embedding is trained"):
        FrozenPart(model, 2)
