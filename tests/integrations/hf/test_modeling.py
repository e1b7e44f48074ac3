"""The model as transformers sees it: files, precision, initial weights, checkpointing, packing, adapters."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM

from statetrack.errors import InvalidInputError, MissingExtraError, UnknownNameError
from statetrack.integrations.hf import StateTrackForCausalLM
from statetrack.layers import layers, make_layer


@pytest.mark.parametrize("name", layers.names())
def test_saved_and_loaded_bit_for_bit(name, tiny_model, tokens, tmp_path):
    model, ids = tiny_model(name), tokens(2, 6)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert isinstance(loaded, StateTrackForCausalLM)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.state_dict().values(), strict=True))
    for (_, mine), (_, theirs) in zip(model.named_buffers(), loaded.named_buffers(), strict=True):
        assert torch.equal(mine, theirs), "a buffer that no file holds was lost"
    with torch.no_grad():
        assert torch.equal(model(ids).logits, loaded(ids).logits)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


@pytest.mark.parametrize("name", layers.names())
def test_what_decides_a_transition_stays_float32(name, tiny_model, tokens, tmp_path):
    tiny_model(name).save_pretrained(tmp_path)
    for model in (
        AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16),
        AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path), dtype=torch.bfloat16),
    ):
        kept = {n for n, parameter in model.named_parameters() if parameter.dtype == torch.float32}
        named = {f"{n}.{p}" for n, module in model.named_modules() for p in getattr(module, "float32_parameters", ())}
        assert kept == named
        out = model(tokens(1, 4), use_cache=True)
        assert out.logits.dtype == torch.bfloat16
        floats = [field for entry in out.cache.layers for field in entry.state if field.is_floating_point()]
        assert all(field.dtype == torch.float32 for field in floats)


@pytest.mark.parametrize("name", layers.names())
def test_layers_begin_as_their_constructors_make_them(name, tiny_config):
    """Initial values of a model are those that the bare layer draws from the same seed: no common rule has touched them."""
    config = tiny_config(name, num_hidden_layers=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = StateTrackForCausalLM(config)
        torch.manual_seed(3)
        torch.nn.Embedding(config.vocab_size, config.hidden_size, 0)
        bare = make_layer(name, config.hidden_size, **config.layer_options)
    mixer = model.model.layers[0].mixer
    assert all(torch.equal(a, b) for a, b in zip(mixer.state_dict().values(), bare.state_dict().values(), strict=True))


def test_gradient_checkpointing_gives_the_same_gradients(tiny_model, tokens):
    model, ids = tiny_model("deltanet,flash-pd-ssm,transformer", num_hidden_layers=3).train(), tokens(2, 6)
    found = []
    for _ in range(2):
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
        model.activation_checkpointing_enable()
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert len(found[0]) > 20


def test_packed_documents_do_not_see_each_other(tiny_model, tokens):
    model = tiny_model("mamba2,transformer,flash-pd-ssm", num_hidden_layers=3)
    first, second = tokens(1, 4), tokens(1, 7, seed=2)
    with torch.no_grad():
        packed = model(torch.cat([first, second], 1), cu_seqlens=torch.tensor([0, 4, 11])).logits
        apart = torch.cat([model(first).logits, model(second).logits], 1)
    torch.testing.assert_close(packed, apart, rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_cross_entropy_of_the_next_token(tiny_model, tokens):
    model, ids = tiny_model("gated-deltanet"), tokens(2, 6)
    labels = ids.clone()
    labels[0, 2] = -100
    out = model(ids, labels=labels)
    scores, targets = out.logits[:, :-1].double(), labels[:, 1:]
    expected = cross_entropy(scores[targets != -100], targets[targets != -100])
    torch.testing.assert_close(out.loss.double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(model(ids, logits_to_keep=2).logits, out.logits[:, -2:])


def test_a_tuple_on_request(tiny_model, tokens):
    model, ids = tiny_model("deltanet"), tokens(2, 4)
    with torch.no_grad():
        out, made = model(ids, labels=ids), model(ids, labels=ids, return_dict=False)
        assert isinstance(made, tuple) and torch.equal(made[0], out.loss) and torch.equal(made[1], out.logits)
        assert torch.equal(model.model(ids, return_dict=False)[0], model.model(ids).last_hidden_state)
        model.config.return_dict = False
        assert torch.equal(model(ids)[0], out.logits)


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (1, 4), (2, 1, 4, 4), (4,)])
def test_a_mask_of_another_shape_is_refused(shape, tiny_model, tokens):
    with pytest.raises(InvalidInputError, match="attention_mask must have the shape"):
        tiny_model("deltanet")(tokens(2, 4), attention_mask=torch.ones(shape))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_lora_trains_the_adapter_alone(tiny_model, tokens):
    peft = pytest.importorskip("peft")
    model, ids = tiny_model("deltanet,flash-pd-ssm"), tokens(2, 6)
    with torch.no_grad():
        before = model(ids).logits
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["gate_proj", "up_proj", "out"]))
    with torch.no_grad():
        assert torch.equal(adapted(ids).logits, before)
    adapted.train()(input_ids=ids, labels=ids).loss.backward()
    trained = {name for name, parameter in adapted.named_parameters() if parameter.grad is not None}
    assert trained and all("lora" in name for name in trained)
    made = adapted.eval().generate(input_ids=ids, max_new_tokens=3, do_sample=False)
    assert made.shape == (2, 9)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"pattern": "deltanet,pd-sm"}, UnknownNameError, "Did you mean 'pd-ssm'"),
        ({"pattern": "lstm,rnn", "num_hidden_layers": 1}, InvalidInputError, "names 2 layers"),
        ({"hidden_size": 0}, InvalidInputError, "at least 1"),
    ],
)
def test_configurations_that_cannot_be(changes, error, message, tiny_config):
    with pytest.raises(error, match=message):
        tiny_config(changes.pop("pattern", "lstm"), **changes)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*pin_memory.*:UserWarning")
def test_the_trainer_of_transformers_trains_it(tiny_model, tokens, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    model, rows = tiny_model("deltanet,flash-pd-ssm"), tokens(8, 6)
    with torch.no_grad():
        before = float(model(rows, labels=rows).loss)
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=8,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
    )
    Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows]).train()
    with torch.no_grad():
        assert float(model.eval()(rows, labels=rows).loss) < before


def test_without_transformers_the_extra_is_named(monkeypatch):
    import importlib
    import sys

    from statetrack.integrations.hf import require

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'statetrack\[hf\]'"):
        importlib.reload(require)
