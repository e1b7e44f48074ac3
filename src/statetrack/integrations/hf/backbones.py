"""Small pre-trained models from files that are no Hugging Face checkpoints, as models and tokenizers of transformers.

Rotary positions turn pairs of rows: (2i, 2i + 1) of a head in these files, (i, i + P/2) in transformers, for a head of width P.
Rows of queries and keys are put into the second order once; with the wrong one a model still writes fluently, only worse.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.integrations.hf.insertion import decoder_layers

Array = npt.NDArray[np.float32]


def half_split(weight: Array, n_heads: int) -> Array:
    """Rows ``(H P, E)`` from interleaved pairs to halves.

    >>> half_split(np.arange(4, dtype=np.float32)[:, None], 1).ravel().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    rows, width = weight.shape
    return weight.reshape(n_heads, rows // n_heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def load_llama2c(weights: str | Path, tokenizer: str | Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model in the legacy format of llama2.c, such as stories260K, and its tokenizer.

    Args:
        weights: the ``.bin`` file of the model.
        tokenizer: the ``.bin`` file of the tokenizer.

    Raises:
        InvalidInputError: a file that is missing or damaged, or of another length than its header says.
    """
    content = _bytes(weights)
    header = np.frombuffer(content[:28].ljust(28, b"\0"), np.int32).tolist()
    dim, hidden, n_layers, n_heads, n_kv, vocab, context = header
    if len(content) % 4 or min(dim, hidden, n_layers, n_heads, n_kv, context) < 1 or dim % (2 * n_heads) or n_heads % n_kv:
        raise InvalidInputError(f"{weights} is no model in the legacy format of llama2.c.")
    tied, vocab = vocab > 0, abs(vocab)
    flat, place = np.frombuffer(content, np.float32, offset=28), 0
    kv = dim // n_heads * n_kv

    def take(*shape: int) -> Array:
        nonlocal place
        size = math.prod(shape)
        if place + size > len(flat):
            raise InvalidInputError(f"{weights} is shorter than its header says.")
        part, place = flat[place : place + size].reshape(shape), place + size
        return part

    embedding, norm1 = take(vocab, dim), take(n_layers, dim)
    wq, wk, wv, wo = (take(n_layers, rows, columns) for rows, columns in ((dim, dim), (kv, dim), (kv, dim), (dim, dim)))
    norm2 = take(n_layers, dim)
    w1, w2, w3 = take(n_layers, hidden, dim), take(n_layers, dim, hidden), take(n_layers, hidden, dim)
    norm = take(dim)
    take(2, context, dim // n_heads // 2)
    head = embedding if tied else take(vocab, dim)
    state: dict[str, Array] = {"model.embed_tokens.weight": embedding, "model.norm.weight": norm, "lm_head.weight": head}
    for i in range(n_layers):
        state |= _layer(
            i, (half_split(wq[i], n_heads), half_split(wk[i], n_kv), wv[i], wo[i]), (w1[i], w3[i], w2[i]), (norm1[i], norm2[i])
        )
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=dim,
        intermediate_size=hidden,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        num_key_value_heads=n_kv,
        max_position_embeddings=context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    return _filled(config, state), _llama2c_tokenizer(tokenizer, vocab)


def load_gguf_llama(path: str | Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model of the Llama family with a byte-level tokenizer from a GGUF file, such as SmolLM2-135M, dequantised to float32.

    Raises:
        InvalidInputError: a file that cannot be read, lacks something, or is of another family.
        MissingExtraError: without the package that reads it.
    """
    try:
        import gguf
    except ImportError as error:
        raise MissingExtraError("gguf", "hf", "Reading a GGUF file") from error
    if not Path(path).is_file():
        raise InvalidInputError(f"{path} is no file.")
    try:
        reader = gguf.GGUFReader(str(path))
        told = {name: entry.contents() for name, entry in reader.fields.items()}
        tensors = {t.name: np.asarray(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32) for t in reader.tensors}
    except (ValueError, LookupError, OverflowError, NotImplementedError) as error:
        raise InvalidInputError(f"{path} is no GGUF file, or is damaged: {error}.") from error
    if told.get("general.architecture") != "llama":
        raise InvalidInputError(f"{path} holds a model of the family {told.get('general.architecture')!r}; 'llama' can be read.")
    try:
        return _gguf_model(told, tensors), _gguf_tokenizer(told)
    except KeyError as error:
        raise InvalidInputError(f"{path} lacks {error}.") from error
    except (ValueError, IndexError, RuntimeError) as error:
        raise InvalidInputError(f"The parts of {path} do not fit each other: {error}") from error


def _gguf_model(told: dict[str, Any], tensors: dict[str, Array]) -> LlamaForCausalLM:
    n_layers, n_heads = told["llama.block_count"], told["llama.attention.head_count"]
    n_kv, width = told["llama.attention.head_count_kv"], told["llama.embedding_length"]
    embedding = tensors["token_embd.weight"]
    state: dict[str, Array] = {"model.embed_tokens.weight": embedding, "model.norm.weight": tensors["output_norm.weight"]}
    state["lm_head.weight"] = tensors.get("output.weight", embedding)
    for i in range(n_layers):
        part = {name: tensors[f"blk.{i}.{name}.weight"] for name in _GGUF_NAMES}
        q, k = half_split(part["attn_q"], n_heads), half_split(part["attn_k"], n_kv)
        attention = (q, k, part["attn_v"], part["attn_output"])
        state |= _layer(i, attention, (part["ffn_gate"], part["ffn_up"], part["ffn_down"]), (part["attn_norm"], part["ffn_norm"]))
    ids = {name: told.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "padding")}
    config = LlamaConfig(
        vocab_size=len(embedding),
        hidden_size=width,
        intermediate_size=told["llama.feed_forward_length"],
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        num_key_value_heads=n_kv,
        max_position_embeddings=told["llama.context_length"],
        rms_norm_eps=told["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": told["llama.rope.freq_base"]},
        tie_word_embeddings="output.weight" not in tensors,
        bos_token_id=ids["bos"],
        eos_token_id=ids["eos"],
        pad_token_id=ids["padding"],
    )
    return _filled(config, state)


def truncated(model: Any, n: int) -> Any:
    """The model with its first ``n`` decoder layers alone, in place; its last norm and its head follow them.

    What a text says is easiest to read in the middle of a model; the upper layers turn to the next word.

    Raises:
        InvalidInputError: the model has fewer layers, or ``n`` is below 1.
    """
    layers = decoder_layers(model)
    if not 1 <= n <= len(layers):
        raise InvalidInputError(f"n must be from 1 to the {len(layers)} decoder layers there are; got {n}.")
    del layers[n:]
    model.config.num_hidden_layers = n
    if getattr(model.config, "layer_types", None) is not None:
        model.config.layer_types = model.config.layer_types[:n]
    return model


_GGUF_NAMES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm")


def _layer(i: int, attention: tuple[Array, ...], mlp: tuple[Array, ...], norms: tuple[Array, ...]) -> dict[str, Array]:
    begin = f"model.layers.{i}."
    named = dict(zip(("q_proj", "k_proj", "v_proj", "o_proj"), attention, strict=True))
    state = {f"{begin}self_attn.{name}.weight": weight for name, weight in named.items()}
    state |= {f"{begin}mlp.{n}_proj.weight": weight for n, weight in zip(("gate", "up", "down"), mlp, strict=True)}
    names = ("input_layernorm", "post_attention_layernorm")
    return state | {f"{begin}{name}.weight": weight for name, weight in zip(names, norms, strict=True)}


def _filled(config: LlamaConfig, state: dict[str, Array]) -> LlamaForCausalLM:
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config)
    model.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    return model.eval()


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from error


def _llama2c_tokenizer(path: str | Path, vocab: int) -> PreTrainedTokenizerFast:
    """The pair whose union scores highest is merged first, which is BPE with merges in the order of scores."""
    content, place, words, scores = _bytes(path), 4, [], []
    for _ in range(vocab):
        score, length = struct.unpack_from("<fi", content, place) if place + 8 <= len(content) else (0.0, -1)
        if length < 0 or place + 8 + length > len(content):
            raise InvalidInputError(f"{path} holds no {vocab} words, as many as the model has.")
        words.append(content[place + 8 : place + 8 + length].decode("utf8", errors="replace"))
        scores.append(score)
        place += 8 + length
    words[:3] = ["<unk>", "<s>", "</s>"]
    ids: dict[str, int] = {}
    for i, word in enumerate(words):
        ids.setdefault(word, i)
    merges = [
        (word[:cut], word[cut:])
        for _, word in sorted(zip(scores, words, strict=True), key=lambda pair: -pair[0])
        if len(word) > 1 and not word.startswith("<")
        for cut in range(1, len(word))
        if word[:cut] in ids and word[cut:] in ids
    ]
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )


def _gguf_tokenizer(told: dict[str, Any]) -> PreTrainedTokenizerFast:
    words, kinds = told["tokenizer.ggml.tokens"], told["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ", 1)) for pair in told["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(w, special=True, normalized=False) for w, kind in zip(words, kinds, strict=True) if kind == 3]
    )
    special = {
        name: told.get(f"tokenizer.ggml.{key}_token_id") for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": words[i] for name, i in special.items() if i is not None}
    )
