"""Pre-training: packing, tokenizers, exact resume, several processes, export."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

from statetrack.errors import InvalidInputError, RunError
from statetrack.integrations.hf.pretraining import PretrainConfig, PretrainRun, pretrain, resume_pretraining
from statetrack.integrations.hf.pretraining.corpus import StoredDocuments, StreamedDocuments, train_tokenizer
from statetrack.integrations.hf.pretraining.packing import Packer, packed, packed_pieces, pieces
from statetrack.training.config import OptimConfig

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "that", "no", "dog", "was", "near", "it")


class Stop(Exception):
    """Stands in for a crash."""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    generator = np.random.default_rng(0)
    documents = [" ".join(generator.choice(WORDS, size=n)) for n in generator.integers(5, 60, size=40)]
    path.write_text("\n\n\n".join(documents), encoding="utf8")
    return PretrainConfig(
        str(path),
        pattern="deltanet,flash-pd-ssm",
        layer_options={"deltanet.n_heads": 2, "flash-pd-ssm.d_state": 4, "flash-pd-ssm.modulus": "annealed"},
        hidden_size=8,
        num_hidden_layers=2,
        intermediate_size=8,
        vocab_size=280,
        context=16,
        batch_size=4,
        steps=12,
        optim=OptimConfig(lr=1e-2, schedule="cosine"),
        held_out=0.1,
        evaluate_every=6,
        checkpoint_every=4,
    )


def losses(run):
    return {record["step"]: record["loss"] for record in run.metrics()}


def observed(store):
    return lambda record: store.append((record["step"], record["loss"]))


def documents(*lengths):
    ids = np.arange(sum(lengths), dtype=np.int32)
    return StoredDocuments(ids, np.cumsum([0, *lengths]), seed=0)


def test_rows_hold_every_token_once_in_an_epoch():
    source = documents(5, 3, 9, 7)
    ids, starts = Packer(source, 4).rows(6)
    assert sorted(ids.flatten().tolist()) == list(range(24))
    assert int(starts.sum()) == 4
    again, _ = Packer(source, 4).rows(12)
    assert sorted(again[6:].flatten().tolist()) == list(range(24))
    assert again[:6].tolist() != again[6:].tolist(), "the second epoch has another order"


@pytest.mark.parametrize("taken", [1, 2, 3, 5])
def test_a_packer_goes_on_from_any_position(taken):
    source = documents(5, 3, 9, 7)
    whole = Packer(source, 4)
    expected = whole.rows(8)[0][taken:]
    first = Packer(source, 4)
    first.rows(taken)
    rest = Packer(source, 4, first.number, first.offset)
    assert torch.equal(rest.rows(8 - taken)[0], expected)


def test_no_label_is_predicted_from_another_document():
    ids, starts = Packer(documents(5, 3, 9, 7), 6).rows(8)
    batch = packed(ids, starts)
    document = np.repeat(np.arange(4), [5, 3, 9, 7])[batch.input_ids[0].numpy()]
    begins = set(batch.cu_seqlens[:-1].tolist())
    for i in range(1, batch.input_ids.shape[1]):
        if int(batch.labels[0, i]) != -100:
            assert document[i] == document[i - 1] and i not in begins
    assert {0, 6, 12} <= begins
    assert batch.n_labels == 48 - len(begins)


def test_pieces_predict_each_token_but_the_first_once():
    for n in (2, 5, 6, 7, 13):
        parts = pieces(np.arange(n, dtype=np.int32), 6)
        batch = packed_pieces(parts)
        told = batch.labels[batch.labels != -100]
        assert told.tolist() == list(range(1, n))


def test_a_tokenizer_writes_every_byte():
    tokenizer = train_tokenizer(["a cat, a mat", "Ünïcödé"], 300)
    text = "".join(map(chr, range(1, 300))) + " snow ☃ \n\t  x"
    assert tokenizer.decode(tokenizer(text)["input_ids"], clean_up_tokenization_spaces=False) == text


def test_streams_skip_what_validates_and_begin_again():
    class Texts:
        def __init__(self, first=0):
            self.first = first

        def skip(self, n):
            return Texts(n)

        def __iter__(self):
            return iter([{"text": word} for word in WORDS[:5][self.first :]])

    tokenizer = train_tokenizer(WORDS, 300)
    source = StreamedDocuments(Texts(), tokenizer, held_out=2).start_at(1)
    told = [tokenizer.decode(next(source)[1:]) for _ in range(5)]
    assert told == ["on", "a", "sat", "on", "a"]


@pytest.mark.parametrize("crash", [3, 7])
def test_a_killed_run_resumes_with_an_identical_curve(config, tmp_path, crash):
    whole, parts = [], []
    run = pretrain(config, tmp_path / "whole", observer=observed(whole))

    def crashing(record):
        parts.append((record["step"], record["loss"]))
        if record["step"] == crash:
            raise Stop

    with pytest.raises(Stop):
        pretrain(config, tmp_path / "parts", observer=crashing)
    saved = crash // config.checkpoint_every * config.checkpoint_every
    parts = parts[:saved]
    again = resume_pretraining(tmp_path / "parts", observer=observed(parts))
    assert parts == whole
    assert [record["step"] for record in again.metrics()] == [record["step"] for record in run.metrics()]
    a, b = (AutoModelForCausalLM.from_pretrained(each.exported).state_dict() for each in (run, again))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_it_learns_and_its_model_works_with_the_tools_of_transformers(config, tmp_path):
    run = pretrain(replace(config, steps=60, evaluate_every=30), tmp_path / "run")
    curve = [record["validation"] for record in run.metrics() if "validation" in record]
    assert curve[-1] < curve[0] < np.log(config.vocab_size)
    tokenizer = AutoTokenizer.from_pretrained(run.exported)
    generator = pipeline("text-generation", model=AutoModelForCausalLM.from_pretrained(run.exported), tokenizer=tokenizer)
    made = generator("the cat", max_new_tokens=5, do_sample=False)
    assert made[0]["generated_text"].startswith("the cat")


def test_validation_is_that_of_documents_one_by_one(config, tmp_path):
    run = pretrain(replace(config, steps=1, evaluate_every=1), tmp_path / "run")
    model = AutoModelForCausalLM.from_pretrained(run.exported)
    held, n_bytes = run.validation()
    nats = labels = 0
    with torch.no_grad():
        for document in held:
            for piece in pieces(document, config.context):
                ids = torch.from_numpy(piece.astype(np.int64))[None]
                scores = model(ids).logits[0, :-1].double().log_softmax(-1)
                nats -= float(scores.gather(1, ids[0, 1:, None]).sum())
                labels += len(piece) - 1
    record = run.metrics()[-1]
    assert record["validation"] == pytest.approx(nats / labels, rel=1e-5)
    assert record["bits_per_byte"] == pytest.approx(nats / np.log(2) / n_bytes, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_two_processes_have_the_curve_of_one(config, tmp_path, sharding):
    config = replace(config, sharding=sharding, steps=4, checkpoint_every=2, evaluate_every=2)
    script = tmp_path / "job.py"
    script.write_text(
        "import json, sys\nfrom statetrack.integrations.hf.pretraining import PretrainConfig, pretrain, resume_pretraining\n"
        f"config = PretrainConfig.from_dict(json.loads({json.dumps(config.to_dict())!r}))\n"
        "pretrain(config, sys.argv[1])\n",
        encoding="utf8",
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run([*launch, str(tmp_path / "two")], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    two, one = PretrainRun.open(tmp_path / "two"), pretrain(config, tmp_path / "one")
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
    validated = [[record["validation"] for record in run.metrics()] for run in (one, two)]
    assert validated[0] == pytest.approx(validated[1], rel=1e-4)
    weights = [AutoModelForCausalLM.from_pretrained(run.exported).state_dict() for run in (one, two)]
    assert all(torch.allclose(weights[0][name], weights[1][name], atol=1e-4) for name in weights[0])


def test_bfloat16_autocast_keeps_parameters_float32(config, tmp_path):
    run = pretrain(replace(config, bf16=True, steps=2), tmp_path / "run")
    model = AutoModelForCausalLM.from_pretrained(run.exported)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_what_is_refused(config, tmp_path):
    (tmp_path / "one.txt").write_text("only one document")
    with pytest.raises(InvalidInputError, match="holds 1 document"):
        pretrain(replace(config, text=str(tmp_path / "one.txt")), tmp_path / "a")
    with pytest.raises(InvalidInputError, match="cannot be read as text"):
        pretrain(replace(config, text=str(tmp_path / "none.txt")), tmp_path / "b")
    with pytest.raises(InvalidInputError, match="context must be at least 2"):
        pretrain(replace(config, context=1), tmp_path / "c")
    with pytest.raises(RunError, match="holds no pre-training run"):
        resume_pretraining(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(RunError, match="already exists"):
        pretrain(config, tmp_path / "full")
