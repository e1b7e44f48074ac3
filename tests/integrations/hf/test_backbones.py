"""Backbones from files, against the forward pass of their format written out in NumPy."""

import struct

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf.backbones import load_gguf_llama, load_llama2c, truncated

DIM, HIDDEN, LAYERS, HEADS, KV, CONTEXT = 8, 12, 2, 2, 1, 32
WORDS = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), " ", "a", "b", "c", ".", " a", "ab", " ab"]
SCORES = [0.0] * 259 + [-20.0, -21.0, -22.0, -23.0, -24.0, -3.0, -2.0, -1.0]
VOCAB = len(WORDS)


def tensors():
    generator = np.random.default_rng(0)
    shapes = {
        "embedding": (VOCAB, DIM),
        "norm1": (LAYERS, DIM),
        "wq": (LAYERS, DIM, DIM),
        "wk": (LAYERS, DIM // HEADS * KV, DIM),
        "wv": (LAYERS, DIM // HEADS * KV, DIM),
        "wo": (LAYERS, DIM, DIM),
        "norm2": (LAYERS, DIM),
        "w1": (LAYERS, HIDDEN, DIM),
        "w2": (LAYERS, DIM, HIDDEN),
        "w3": (LAYERS, HIDDEN, DIM),
        "norm": (DIM,),
        "tables": (2, CONTEXT, DIM // HEADS // 2),
    }
    return {name: generator.normal(size=shape).astype(np.float32) * 0.5 for name, shape in shapes.items()}


def norm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def turned(x, position):
    """Pairs (2i, 2i + 1) of ``x (H, P)`` turned by ``position * 10000^(-2i / P)``."""
    out = x.copy()
    for i in range(0, x.shape[1], 2):
        angle = position * 10000.0 ** (-i / x.shape[1])
        out[:, i] = x[:, i] * np.cos(angle) - x[:, i + 1] * np.sin(angle)
        out[:, i + 1] = x[:, i] * np.sin(angle) + x[:, i + 1] * np.cos(angle)
    return out


def forward(t, ids):
    """Logits of the last token, one token at a time, in float64."""
    t = {name: value.astype(np.float64) for name, value in t.items()}
    keys, values = [[] for _ in range(LAYERS)], [[] for _ in range(LAYERS)]
    for position, token in enumerate(ids):
        x = t["embedding"][token]
        for layer in range(LAYERS):
            h = norm(x, t["norm1"][layer])
            q = turned((t["wq"][layer] @ h).reshape(HEADS, -1), position)
            keys[layer].append(turned((t["wk"][layer] @ h).reshape(KV, -1), position))
            values[layer].append((t["wv"][layer] @ h).reshape(KV, -1))
            heads = []
            for head in range(HEADS):
                group = head * KV // HEADS
                scores = np.array([q[head] @ k[group] for k in keys[layer]]) / np.sqrt(q.shape[1])
                weights = np.exp(scores - scores.max())
                heads.append(sum(w * v[group] for w, v in zip(weights / weights.sum(), values[layer], strict=True)))
            x = x + t["wo"][layer] @ np.concatenate(heads)
            h = norm(x, t["norm2"][layer])
            gate = t["w1"][layer] @ h
            x = x + t["w2"][layer] @ (gate / (1 + np.exp(-gate)) * (t["w3"][layer] @ h))
    return t["embedding"] @ norm(x, t["norm"])


@pytest.fixture
def files(tmp_path):
    header = np.array([DIM, HIDDEN, LAYERS, HEADS, KV, VOCAB, CONTEXT], dtype=np.int32).tobytes()
    (tmp_path / "model.bin").write_bytes(header + b"".join(value.tobytes() for value in tensors().values()))
    words = b"".join(
        struct.pack("<fi", score, len(word.encode())) + word.encode() for score, word in zip(SCORES, WORDS, strict=True)
    )
    (tmp_path / "words.bin").write_bytes(struct.pack("<i", 6) + words)
    return tmp_path / "model.bin", tmp_path / "words.bin"


def test_llama2c_logits_are_those_of_its_format(files):
    model, _ = load_llama2c(*files)
    ids = [1, 262, 259, 260, 7]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
    np.testing.assert_allclose(logits.numpy(), forward(tensors(), ids), rtol=1e-4, atol=1e-4)


def test_llama2c_merges_the_best_pair_first(files):
    _, tokenizer = load_llama2c(*files)
    assert tokenizer("ab")["input_ids"] == [WORDS.index(" ab")]
    assert tokenizer("a c")["input_ids"] == [WORDS.index(word) for word in (" a", " ", "c")]
    # Two bytes of a letter that no word has.
    assert tokenizer("é")["input_ids"] == [WORDS.index(word) for word in (" ", "<0xC3>", "<0xA9>")]
    assert tokenizer.decode(tokenizer("ab ab. é")["input_ids"]) == "ab ab. é"


def test_gguf_logits_and_tokens(tmp_path):
    gguf = pytest.importorskip("gguf")
    t, path = tensors(), tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    for name, value in (("block_count", LAYERS), ("embedding_length", DIM), ("feed_forward_length", HIDDEN)):
        writer.add_uint32(f"llama.{name}", value)
    for name, value in (("context_length", CONTEXT), ("attention.head_count", HEADS), ("attention.head_count_kv", KV)):
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    letters = ["<end>", *sorted("abc1.Ġ"), "ab", *(f"x{i}" for i in range(VOCAB - 8))]
    writer.add_token_list(letters)
    writer.add_token_types([3] + [1] * (VOCAB - 1))
    writer.add_token_merges(["a b"])
    writer.add_uint32("tokenizer.ggml.eos_token_id", 0)
    writer.add_tensor("token_embd.weight", t["embedding"])
    writer.add_tensor("output_norm.weight", t["norm"])
    names = {"attn_q": "wq", "attn_k": "wk", "attn_v": "wv", "attn_output": "wo", "attn_norm": "norm1"}
    names |= {"ffn_gate": "w1", "ffn_down": "w2", "ffn_up": "w3", "ffn_norm": "norm2"}
    for i in range(LAYERS):
        for theirs, ours in names.items():
            writer.add_tensor(f"blk.{i}.{theirs}.weight", np.ascontiguousarray(t[ours][i]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    whole = path.read_bytes()
    for n, junk in enumerate((b"", b"junk", bytes(64), whole[:4], whole[:40], whole[: len(whole) // 2], whole[:-200])):
        (tmp_path / f"junk{n}").write_bytes(junk)
        with pytest.raises(InvalidInputError, match="is no GGUF file, or is damaged"):
            load_gguf_llama(tmp_path / f"junk{n}")
    for n, (name, other) in enumerate(((b"output_norm.weight", b"output_norm.weighs"), (b"tokenizer.ggml.merges", b"t" * 21))):
        (tmp_path / f"lacks{n}").write_bytes(whole.replace(name, other))
        with pytest.raises(InvalidInputError, match="lacks '" + name.decode()):
            load_gguf_llama(tmp_path / f"lacks{n}")
    model, tokenizer = load_gguf_llama(path)
    ids = [3, 5, 2, 6]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
    np.testing.assert_allclose(logits.numpy(), forward(t, ids), rtol=1e-4, atol=1e-4)
    assert tokenizer.convert_ids_to_tokens(tokenizer("abc ab11.<end>")["input_ids"]) == [
        "ab",
        "c",
        "Ġ",
        "ab",
        "1",
        "1",
        ".",
        "<end>",
    ]


def test_files_that_cannot_be_read(files, tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_llama2c(tmp_path / "none.bin", files[1])
    (tmp_path / "short.bin").write_bytes(files[0].read_bytes()[:-400])
    with pytest.raises(InvalidInputError, match="shorter than its header says"):
        load_llama2c(tmp_path / "short.bin", files[1])
    for junk in (b"", b"junk", bytes(64), b"\xff" * 64, b"\x03\0\0\0" * 40, files[0].read_bytes()[:-3]):
        (tmp_path / "junk.bin").write_bytes(junk)
        with pytest.raises(InvalidInputError, match="legacy format"):
            load_llama2c(tmp_path / "junk.bin", files[1])
    for junk in (b"", b"junk", b"\xff" * 64, files[1].read_bytes()[:-1]):
        (tmp_path / "junk.bin").write_bytes(junk)
        with pytest.raises(InvalidInputError, match=f"holds no {VOCAB} words"):
            load_llama2c(files[0], tmp_path / "junk.bin")
    (tmp_path / "huge.bin").write_bytes(np.array([2**30, 8, 2**30, 2, 1, 5, 32], dtype=np.int32).tobytes())
    with pytest.raises(InvalidInputError, match="shorter than its header says"):
        load_llama2c(tmp_path / "huge.bin", files[1])


def test_a_gguf_file_that_is_not_there(tmp_path):
    pytest.importorskip("gguf", reason="gguf is not installed")
    with pytest.raises(InvalidInputError, match="is no file"):
        load_gguf_llama(tmp_path / "none.gguf")


def test_a_truncated_model_is_its_lower_layers_and_the_last_norm():
    config = Qwen2Config(
        vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2
    )
    model, ids = Qwen2ForCausalLM(config).eval(), torch.arange(6)[None]
    with torch.no_grad():
        middle = model(ids, output_hidden_states=True).hidden_states[2]
        wanted = model.lm_head(model.model.norm(middle))
        shorter = truncated(model, 2)
        assert torch.equal(shorter(ids).logits, wanted)
    assert shorter.config.num_hidden_layers == 2 == len(shorter.config.layer_types)
    made = shorter.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert made.shape == (1, 9)
    for n in (0, 3):
        with pytest.raises(InvalidInputError, match="n must be from 1 to the 2 decoder layers"):
            truncated(model, n)
