"""Stories and what is read of them: labels stand where sentences end, and tell what the automaton does."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf import insert_layers
from statetrack.integrations.hf.frozen import FrozenPart
from statetrack.integrations.hf.pretraining.corpus import train_tokenizer
from statetrack.integrations.hf.reader import SentenceReader, join, tell
from statetrack.integrations.hf.shelf import shelved
from statetrack.recipes.words_training import Training, train_reader
from statetrack.tasks import stream
from statetrack.tasks.sentences import Sentences
from statetrack.training.config import LengthConfig, OptimConfig

TRAINING = Training(3, 4, LengthConfig(low=1, high=4, start=2), OptimConfig(schedule="cosine"), every=2)


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
        assert stories.ends[row].tolist() == places + [-1] * (5 - n) and places[-1] == int(stories.last[row])
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


def test_beginnings_are_the_stories_told_shorter(tokenizer):
    task = Sentences(theme="cycle")
    whole = tell(task, tokenizer, [6, 6], np.random.default_rng(2))
    begun = whole.begin([2, 5])
    for row, n in enumerate((2, 5)):
        stop = int(whole.ends[row, n]) + 1
        assert begun.attention_mask[row].sum() == stop and begun.last[row] == stop - 1
        assert torch.equal(begun.input_ids[row, :stop], whole.input_ids[row, :stop])
        assert torch.equal(begun.targets[row, :stop], whole.targets[row, :stop])
        assert (begun.targets[row, stop:] == -100).all()
        assert begun.ends[row].tolist() == whole.ends[row, : n + 1].tolist() + [-1] * (5 - n)
    with pytest.raises(InvalidInputError, match="have no beginnings of"):
        begun.begin([3, 3])


def test_a_set_is_its_parts_padded(tokenizer):
    task = Sentences(theme="parity")
    parts = [tell(task, tokenizer, lengths, np.random.default_rng(3)) for lengths in ([1], [4, 2])]
    whole = join(parts)
    assert torch.equal(whole.last, torch.cat([part.last for part in parts]))
    assert torch.equal(whole.pick([1, 2]).begin([4, 2]).targets, parts[1].targets)
    with pytest.raises(InvalidInputError, match="make no set"):
        join([])


def test_every_answer_is_compared_with_the_target_at_its_place(tokenizer):
    reader = SentenceReader(backbone(len(tokenizer)), 2)
    torch.nn.init.zeros_(reader.head.weight)
    reader.head.bias.data = torch.tensor([1.0, 0.0])
    stories = tell(Sentences(theme="parity"), tokenizer, [5, 3], np.random.default_rng(4))
    right = reader.right(stories)
    for row, n in enumerate((5, 3)):
        states = stories.targets[row][stories.targets[row] != -100]
        assert right[row].tolist() == (states == 0).tolist() + [False] * (5 - n)
    ended = [stories.targets[row, stories.last[row]] == 0 for row in range(2)]
    assert reader.accuracy(stories) == sum(ended) / 2


def test_states_kept_in_files_give_the_same_scores(tokenizer, tmp_path):
    model = insert_layers(backbone(len(tokenizer)), where=[-1], d_state=4)
    reader = SentenceReader(model, 2, FrozenPart(model, -1)).eval()
    torch.nn.init.normal_(model.get_submodule("model.layers.1.statetrack_inserted.out").weight)

    def told(i):
        return tell(Sentences(theme="parity"), tokenizer, [3, 3], stream(0, "train", i))

    lines = []
    shelved(tmp_path, told, 1, reader.frozen, lines.append)
    stories = shelved(tmp_path, told, 2, reader.frozen, lines.append)
    assert len(lines) == 2, "the first part was there already"
    with torch.no_grad():
        told_mask = stories.attention_mask.bool()
        torch.testing.assert_close(reader(stories)[told_mask], reader(stories._replace(states=None))[told_mask])
        model.model.layers[0].mlp.up_proj.weight.mul_(2.0)
    shelved(tmp_path, told, 1, reader.frozen, lines.append)
    assert len(lines) == 3, "states of other weights are of no use"
    (file,) = [path for path in tmp_path.rglob("*.safetensors") if path.parent.name.endswith("0001")]
    file.write_bytes(b"half")
    model.model.layers[0].mlp.up_proj.weight.data /= 2.0
    torch.testing.assert_close(shelved(tmp_path, told, 2, reader.frozen, lines.append).states, stories.states)


def test_training_reaches_what_is_inserted_alone(tokenizer):
    model = backbone(len(tokenizer)).requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    reader = SentenceReader(insert_layers(model, where=[-1], d_state=4), 2)
    stories = tell(Sentences(theme="parity"), tokenizer, [4] * 6, np.random.default_rng(5))
    assert train_reader(reader, stories, TRAINING).curriculum.longest == 2
    named = dict(model.named_parameters())
    assert all(torch.equal(named[name], value) for name, value in before.items())
    changed = [name for name, parameter in named.items() if name not in before and parameter.grad is not None]
    assert any("router" in name for name in changed)


def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(tokenizer, tmp_path):
    stories = tell(Sentences(theme="parity"), tokenizer, [4] * 6, np.random.default_rng(6))
    found = []
    for stop in (False, True):
        torch.manual_seed(0)
        model = backbone(len(tokenizer)).requires_grad_(False)
        options = {"d_state": 4, "modulus": "annealed", "phase_levels": 2}
        reader = SentenceReader(insert_layers(model, where=[-1], **options), 2)
        folder = tmp_path / str(stop)
        if stop:

            def stopped(line):
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                train_reader(reader, stories, TRAINING, folder, stopped)
            for parameter in reader.parameters():
                if parameter.requires_grad:
                    torch.nn.init.constant_(parameter, 0.5)
        reached = train_reader(reader, stories, TRAINING, folder)
        reader.eval()
        found.append((reached.step, reached.curriculum, reader(stories)))
    assert found[0][:2] == found[1][:2]
    assert torch.equal(found[0][2], found[1][2])
