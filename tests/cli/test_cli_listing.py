"""What there is."""

from statetrack.layers import layer_options, layers
from statetrack.recipes import recipes
from statetrack.tasks import make_task, tasks


def test_layers_with_their_traits_and_options(call):
    found = call("list layers --json").json["layers"]
    assert sorted(found) == layers.names()
    for name, entry in found.items():
        assert entry["one_layer"]["what"] == layers.get(name).traits.one_layer.what
        assert {key: option["default"] for key, option in entry["options"].items()} == {
            key: parameter.default for key, parameter in layer_options(name).items()
        }
    assert found["lstm"]["options"]["d_state"]["help"] == "N, number of memory cells."


def test_tasks_with_chance(call):
    found = call("list tasks --json").json["tasks"]
    assert sorted(found) == tasks.names()
    assert (found["parity"]["chance"], found["cycle-navigation"]["chance"], found["group-word"]["chance"]) == (0.5, 0.2, 1 / 60)
    assert found["group-word"]["states"] == 60
    assert all(entry["vocabulary"] == make_task(name).vocab_size for name, entry in found.items())


def test_recipes(call):
    assert sorted(call("list recipes --json").json["recipes"]) == recipes.names()


def test_lists_for_people_name_everything(call):
    for what, names in (("layers", layers.names()), ("tasks", tasks.names()), ("recipes", recipes.names())):
        out = call(f"list {what}").out
        assert all(name in out for name in names)
    assert all(layers.get(name).traits.cost.split()[0] in call("list layers").out for name in layers.names())
    words = call("list layers flash-pd-ssm").out.split()
    assert "--layer.dictionary-size=8" in words
    assert "--layer.skip" in words
    assert "lstm" not in words
