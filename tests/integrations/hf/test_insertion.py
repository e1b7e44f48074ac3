"""Our layers inside models of eight architectures, built tiny from their configurations."""

import copy

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from statetrack.errors import InvalidInputError, RunError, UnknownNameError
from statetrack.integrations.hf import insert_layers, load_inserted, remove_layers, replace_layers, save_inserted
from statetrack.integrations.hf.insertion import Context, decoder_layers, inserted_layers

BASE = {"vocab_size": 23, "hidden_size": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
ATTENTION = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32, "num_hidden_layers": 2}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 4, "mamba_n_groups": 1}
ARCHITECTURES = {
    "Llama": ATTENTION,
    "Qwen2": ATTENTION,
    "GPT2": {"n_head": 2, "n_layer": 2, "n_embd": 16, "n_positions": 32},
    "GPTNeoX": {"num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2},
    "Mamba2": {"num_heads": 4, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 4, "num_hidden_layers": 2},
    "GraniteMoeHybrid": {
        **ATTENTION,
        **MAMBA,
        "layer_types": ["linear_attention", "full_attention"],
        "shared_intermediate_size": 32,
        "num_local_experts": 0,
        "position_embedding_type": "rope",
    },
    "NemotronH": {
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "intermediate_size": 32,
        "layers_block_type": ["linear_attention", "full_attention", "mlp"],
        "num_hidden_layers": 3,
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 1,
        "chunk_size": 4,
    },
    "Qwen3Next": {
        **ATTENTION,
        "head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 4,
        "linear_value_head_dim": 4,
        "num_experts": 0,
        "mlp_only_layers": [0, 1],
    },
}
OPTIONS = {"d_state": 4, "n_heads": 2, "dictionary_size": 3}
GREEDY = {"max_new_tokens": 4, "do_sample": False}


def backbone(name):
    config = getattr(transformers, f"{name}Config")(**{**BASE, **ARCHITECTURES[name], "initializer_range": 0.3})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


def trained(model):
    """Weights of our layers as training would leave them: the output depends on them."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for inserted in inserted_layers(model):
            inserted.out.weight.copy_(torch.randn(inserted.out.weight.shape, generator=generator))
    return model


def greedy(model, ids, n):
    for _ in range(n):
        with torch.no_grad():
            ids = torch.cat([ids, model(ids, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    return ids


@pytest.fixture(params=sorted(ARCHITECTURES))
def model(request):
    return backbone(request.param)


def test_nothing_changes_until_it_is_trained_and_after_it_is_removed(model, tokens):
    ids = tokens(2, 5)
    before, names = copy.deepcopy(model.state_dict()), [type(module) for module in model.modules()]
    with torch.no_grad():
        expected = model(ids).logits
        insert_layers(model, where=[0, -1], **OPTIONS)
        assert torch.equal(model(ids).logits, expected)
        assert not torch.equal(trained(model)(ids).logits, expected)
        assert torch.equal(remove_layers(model)(ids).logits, expected)
    assert [type(module) for module in model.modules()] == names
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("put", [insert_layers, replace_layers])
def test_cached_generation_is_the_uncached_one(model, put, tokens):
    ids = tokens(2, 5)
    trained(put(model, where=[0, 1], **OPTIONS))
    assert torch.equal(model.generate(ids, **GREEDY), greedy(model, ids, 4))
    beams = {**GREEDY, "num_beams": 2}
    assert torch.equal(model.generate(ids, **beams), model.generate(ids, use_cache=False, **beams))


@pytest.mark.parametrize("put", [insert_layers, replace_layers])
@pytest.mark.parametrize("asked", [{"use_cache": True}, {}])
def test_a_cache_out_of_reach_is_refused(put, asked, tokens):
    model, ids = trained(put(backbone("Llama"), where=[0, 1], **OPTIONS)), tokens(1, 4)
    for layer in decoder_layers(model):
        layer.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, "cache": None}), with_kwargs=True, prepend=True
        )
    with torch.no_grad():
        assert model(ids, use_cache=False).logits.shape == (1, 4, 23)
        with pytest.raises(InvalidInputError, match="hands its decoder layers no cache"):
            model(ids, **asked)


def test_padding_does_not_reach_our_layers(model, tokens):
    trained(insert_layers(model, where=[1], **OPTIONS))
    long, short = tokens(1, 5), tokens(1, 3, seed=2)
    rows = torch.cat([long, torch.cat([torch.zeros(1, 2, dtype=torch.long), short], 1)])
    made = model.generate(rows, attention_mask=(rows != 0).long(), **GREEDY)
    assert torch.equal(made[1, 2:], greedy(model, short, 4)[0])


@pytest.mark.parametrize("put", [insert_layers, replace_layers])
def test_only_our_part_is_trained_and_saved(model, put, tokens, tmp_path):
    ids, fresh = tokens(2, 5), copy.deepcopy(model)
    trained(put(model, where=[1], **OPTIONS))
    model.train()(ids, labels=ids).loss.backward()
    reached = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert reached and all("statetrack_inserted" in name for name in reached)
    model.eval()
    save_inserted(model, tmp_path / "ours")
    loaded = load_inserted(fresh, tmp_path / "ours")
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
    n_ours = sum(inserted.out.weight.numel() for inserted in inserted_layers(model))
    assert (tmp_path / "ours" / "inserted.safetensors").stat().st_size < 40 * 4 * n_ours


def test_packed_documents_do_not_see_each_other(tokens):
    model = trained(insert_layers(backbone("Llama"), where=[0, 1], **OPTIONS))
    first, second = tokens(1, 3), tokens(1, 5, seed=2)
    where = {"position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]]), "cu_seq_lens_q": torch.tensor([0, 3, 8])}
    with torch.no_grad():
        packed = model(torch.cat([first, second], 1), use_cache=False, **where).logits
        apart = torch.cat([model(first).logits, model(second).logits], 1)
    torch.testing.assert_close(packed, apart, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("put", [insert_layers, replace_layers])
def test_a_layer_with_ticks_reads_their_tokens_alone(put, tokens, tmp_path):
    """The oracle takes the hidden states of those tokens out, runs the layer on them and puts its outputs back."""
    model, tokens, hidden = backbone("Llama"), tokens(2, 9), {}
    trained(put(model, "flash-pd-ssm", [1], ticks=[3, 7, 8, 9, 10], **OPTIONS))
    (inserted,) = inserted_layers(model)
    mask = torch.ones_like(tokens)
    mask[0, :2] = 0

    def look(module, args, kwargs):
        hidden["in"] = args[0] if args else kwargs["hidden_states"]

    def looked(module, args, kwargs, output):
        hidden["out"] = output

    inserted.register_forward_pre_hook(look, with_kwargs=True)
    inserted.register_forward_hook(looked, with_kwargs=True)
    with torch.no_grad():
        model(tokens, attention_mask=mask, use_cache=False)
        for row in range(len(tokens)):
            x = hidden["in"][row]
            wanted = x.clone()
            at = [i for i in range(tokens.shape[1]) if int(tokens[row, i]) in (3, 7, 8, 9, 10) and mask[row, i]]
            if at:
                wanted[at] = x[at] + inserted.out(inserted.mixer(inserted.norm(x[at])[None])[0][0])
            torch.testing.assert_close(hidden["out"][row], wanted)
        alone = greedy(model, tokens, 4)
        assert torch.equal(model.generate(tokens, **GREEDY), alone)
        save_inserted(model, tmp_path / "ours")
        again = load_inserted(backbone("Llama"), tmp_path / "ours")
        assert torch.equal(again(tokens).logits, model(tokens).logits)
        assert inserted_layers(again)[0].ticks == (3, 7, 8, 9, 10)
        with pytest.raises(InvalidInputError, match="call the model with input_ids"):
            model(inputs_embeds=model.get_input_embeddings()(tokens))


def test_ticks_in_packed_documents(tokens):
    tokens = tokens(2, 9)
    model = trained(insert_layers(backbone("Llama"), "flash-pd-ssm", [1], ticks=[3, 7, 8, 9, 10, 11, 12], **OPTIONS))
    (inserted,) = inserted_layers(model)
    context = Context(ids=tokens[:1], offsets=torch.tensor([0, 2, 2, tokens.shape[1]]))
    x = torch.randn(1, tokens.shape[1], 16)
    with torch.no_grad():
        packed = inserted.run(x, context, None)
        for begin, end in ((0, 2), (2, tokens.shape[1])):
            alone = inserted.run(x[:, begin:end], Context(ids=tokens[:1, begin:end]), None)
            torch.testing.assert_close(packed[:, begin:end], alone)


def test_a_fitted_norm_gives_features_of_one_size():
    model = insert_layers(backbone("Llama"), **OPTIONS)
    (inserted,) = inserted_layers(model)
    size = torch.logspace(-1, 2, 16)
    states = torch.randn(3, 400, 16, generator=torch.Generator().manual_seed(2)) * size
    inserted.fit_norm(states)
    torch.testing.assert_close(inserted.norm(states).pow(2).mean((0, 1)), torch.ones(16), rtol=1e-3, atol=1e-3)


def test_replaced_layers_come_back(model, tokens):
    ids = tokens(1, 4)
    with torch.no_grad():
        expected = model(ids).logits
        replace_layers(model, "deltanet", n_heads=2)
        assert not torch.equal(model(ids).logits, expected)
        assert torch.equal(remove_layers(model)(ids).logits, expected)


def test_a_copy_is_a_model_of_its_own(tokens):
    model, ids = trained(insert_layers(backbone("Llama"), **OPTIONS)), tokens(1, 4)
    other = copy.deepcopy(model)
    with torch.no_grad():
        assert torch.equal(other(ids).logits, model(ids).logits)
        inserted_layers(other)[0].out.weight.zero_()
        assert not torch.equal(other(ids).logits, model(ids).logits)
    remove_layers(other)
    assert inserted_layers(model)


def test_bfloat16_keeps_what_decides_a_transition(tokens):
    model = backbone("Llama").bfloat16()
    inserted = inserted_layers(trained(insert_layers(model, "mamba2", d_state=4, d_head=4)))[0]
    kept = {name for name, parameter in inserted.named_parameters() if parameter.dtype == torch.float32}
    assert kept == {f"{n}.{p}" for n, module in inserted.named_modules() for p in getattr(module, "float32_parameters", ())}
    ids = tokens(1, 4)
    assert torch.equal(model.generate(ids, **GREEDY)[:, :4], ids)


def test_activation_checkpointing_gives_the_same_gradients(tokens):
    model, ids = trained(insert_layers(backbone("Llama"), **OPTIONS)).train(), tokens(2, 5)
    found = []
    for _ in range(2):
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
        model.activation_checkpointing_enable()
    assert found[0] and all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda model: insert_layers(model, where=[2]), InvalidInputError, r"from -2 to 1, at least one; got \[2\]"),
        (lambda model: insert_layers(model, where=1), InvalidInputError, r"from -2 to 1, at least one; got 1"),
        (lambda model: replace_layers(model, where="1"), InvalidInputError, r"from -2 to 1, at least one; got \['1'\]"),
        (lambda model: insert_layers(model, "lru", d_state=0), InvalidInputError, "at least 1"),
        (lambda model: insert_layers(model, where=[0, -2]), InvalidInputError, "names a decoder layer twice"),
        (lambda model: insert_layers(insert_layers(model), where=[1]), InvalidInputError, "has one of our layers already"),
        (lambda model: insert_layers(model, ticks=[]), InvalidInputError, "ticks must be ids of tokens"),
        (lambda model: insert_layers(model, ticks=3), InvalidInputError, "ticks must be ids of tokens"),
        (lambda model: insert_layers(model, "flash-pd"), UnknownNameError, "flash-pd-ssm"),
        (lambda model: remove_layers(model), InvalidInputError, "has none of our layers"),
        (lambda model: decoder_layers(torch.nn.Linear(2, 2)), InvalidInputError, "no list"),
    ],
)
def test_what_cannot_be_inserted(call, error, message):
    model = backbone("Llama")
    before = {name: id(module) for name, module in model.named_modules()}
    with pytest.raises(error, match=message):
        call(model)
    if "already" not in message:
        assert before == {name: id(module) for name, module in model.named_modules()}
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert not any(module._forward_pre_hooks for module in model.modules())


def test_saved_layers_fit_one_shape_of_model(tmp_path):
    save_inserted(insert_layers(backbone("Llama"), **OPTIONS), tmp_path / "ours")
    with pytest.raises(InvalidInputError, match="belong to a model with"):
        load_inserted(backbone("NemotronH"), tmp_path / "ours")
    with pytest.raises(InvalidInputError, match="has some of our layers already"):
        load_inserted(insert_layers(backbone("Llama"), **OPTIONS), tmp_path / "ours")
    with pytest.raises(RunError, match="does not exist"):
        load_inserted(backbone("Llama"), tmp_path)
