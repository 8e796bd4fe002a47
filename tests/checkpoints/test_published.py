"""The published files: what they hold is read and certified; whatever else they hold is refused by name."""

import io
import json
import os
import pickle
import shutil
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import interpbench
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_pairs
from interpbench.checkpoints.pickles import MOST_PLAIN, read_plain, read_weights
from interpbench.checkpoints.published_files import claimed_edges, load_published
from interpbench.core.errors import CheckpointError
from interpbench.runs.certify import certify_checkpoints
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.settings import CertificateSettings
from interpbench.transformer.model import Transformer
from tests.published_models import pickled, published_config, write_mib, write_published

EDGES = [
    *[(f"hook_{kind}embed", f"blocks.1.hook_{slot}_input[2]") for kind in ("", "pos_") for slot in "qkv"],
    ("hook_embed", "blocks.0.hook_mlp_in"),
    ("blocks.0.hook_mlp_in", "blocks.0.hook_mlp_out"),
    ("blocks.0.hook_mlp_out", "blocks.1.hook_v_input[2]"),
    ("blocks.1.hook_v_input[2]", "blocks.1.attn.hook_v[2]"),
    ("blocks.1.attn.hook_v[2]", "blocks.1.attn.hook_result[2]"),
    ("blocks.1.attn.hook_result[2]", "blocks.1.hook_resid_post"),
]


def refused(call: Callable[[], object], *said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400, message
    assert all(text in message for text in said), message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Our certified `frac_prevs` as if it were the published one."""
    return write_published(tmp_path / "3", interpbench.load("frac_prevs").network, get_task(3), EDGES)


# What they hold.


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("as_object", [False, True])
def test_configurations_of_every_kind(tmp_path: Path, protocol: int, as_object: bool) -> None:
    ours = interpbench.load("trend_to_next").network
    settings: dict[str, Any] = {
        "as_object": as_object,
        "protocol": protocol,
        "device": torch.device("cuda", 0),
    }
    loaded = load_published(write_published(tmp_path / "13", ours, get_task(13), **settings))
    tokens = load_pairs(tmp_path / "13").clean
    torch.testing.assert_close(loaded.network(tokens), ours(tokens), atol=0, rtol=0)
    assert (loaded.task, loaded.record.legacy_id, loaded.record.kind) == ("trend_to_next", 13, "published")
    assert loaded.record.training == {"published": {"lr": 1e-3, "strict_weight": 0.4}}
    assert loaded.truth.to_json() == interpbench.load("trend_to_next").truth.to_json()


@pytest.mark.parametrize("number", [3, 11, 18, 35, 113])
def test_tokens_and_classes_are_put_in_our_order(tmp_path: Path, number: int) -> None:
    task = get_task(number)
    ours = Transformer(shape(task, ModelSettings(rule="published")), 1)
    folder = write_published(tmp_path / str(number), ours, task, suffix="_510")
    theirs = torch.load(folder / "ll_model_510.pth", weights_only=True)["embed.W_E"]
    assert torch.equal(theirs, ours.embed.W_E) == (number == 113)  # whose tokens are numbers
    loaded = interpbench.load(folder)
    tokens = load_pairs(folder).clean
    torch.testing.assert_close(loaded.network(tokens), ours(tokens), atol=0, rtol=0)


def test_the_library_and_the_commands_take_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = interpbench.load(folder)
    scores = interpbench.discover(checkpoint, "eap", examples=64)
    assert interpbench.compare(checkpoint.truth, scores)["qkv_edge"].auroc == 1.0
    assert find_checkpoints(str(tmp_path)) == find_checkpoints(str(folder / "ll_model.pth")) == [folder]
    assert checkpoint.network.to_transformer_lens().cfg.n_heads == 4


def test_certify_says_what_they_really_satisfy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, network = get_task("trend_to_next"), interpbench.load("trend_to_next").network
    folder = write_published(tmp_path / "13", network, task, [("hook_embed", "blocks.1.hook_mlp_in")])
    few = CertificateSettings(pairs=64, looks=1, checks=500, attacks=0)
    certify_checkpoints(str(folder), settings=few, save=True)
    out = capsys.readouterr().out
    assert "/ 64 " in out and "edges.pkl claims 1 head edges: 0 of the 4 that are required" in out
    assert "forbidden: embed->m1" in out
    certificate = interpbench.load(folder).certificate
    assert certificate is not None and certificate.rates["accuracy"]["output"]["task"].wrong == 0
    with torch.no_grad():
        network.blocks[0].mlp.W_out.zero_()  # type: ignore[union-attr]
    write_published(folder, network, task)
    with pytest.raises(CheckpointError, match=r"certificate.json is of other weights"):
        interpbench.load(folder)
    assert not certify_checkpoints(str(folder), settings=few, save=True)
    certificate = interpbench.load(folder).certificate
    assert certificate is not None and certificate.rates["accuracy"]["output"]["task"].wrong > 32


@pytest.mark.exhaustive
def test_a_published_model_can_be_certified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert certify_checkpoints(str(folder), quick=True)
    out = capsys.readouterr().out
    assert "all pairs, sets ≥ 99.9%; asked for: 99.9%" in out and "/ 65,536" in out


def test_claims_are_head_edges(folder: Path) -> None:
    graph = interpbench.load("frac_prevs").truth.graph
    wanted = ["a1.h2->logits", "embed->a1.h2", "embed->m0", "m0->a1.h2"]
    assert claimed_edges(folder, graph) == wanted
    (folder / "edges.pkl").unlink()
    assert claimed_edges(folder, graph) is None
    (folder / "edges.pkl").write_bytes(pickle.dumps([("blocks.7.hook_mlp_out", "blocks.8.hook_mlp_in")]))
    refused(lambda: claimed_edges(folder, graph), "m7->m8", "does not have")
    for data in ({}, [1], [("a", 2)], [("a", "b", "c")], "text"):
        (folder / "edges.pkl").write_bytes(pickle.dumps(data))
        refused(lambda: claimed_edges(folder, graph), "edges.pkl", "edges" if data != {} else "list")


def test_ioi_keeps_the_words_of_its_task(tmp_path: Path) -> None:
    task = get_task("ioi_published_prompts")
    cfg = shape(task, ModelSettings(rule="published", d_mlp=8))
    names = [word if word in ("Then", ",", ".") else f"Ġ{word}" for word in task.vocab]
    numbers = [1 + 7 * place % 997 for place in range(len(names))]
    vocabulary = {**dict(zip(names, numbers)), "<|endoftext|>": 0, "unused": 998}
    assert len(set(numbers)) == len(numbers)
    big = Transformer(type(cfg)(**{**vars(cfg), "d_vocab": 1000, "d_out": 1000, "n_ctx": 32}), 1)
    folder = write_mib(tmp_path, big, vocabulary, {"input->m0", "m0->a1.h1<q>", "a4.h1->logits"})
    loaded = load_published(folder)
    tokens = load_pairs(folder).clean[:8]
    ids = torch.tensor([*numbers, 0, 0])[tokens]
    classes = [vocabulary[f"Ġ{name}"] for name in task.causal_model.classes]
    torch.testing.assert_close(loaded.network(tokens), big(ids)[..., classes], atol=1e-6, rtol=1e-6)
    assert loaded.record.alignment["name_mover"] == "a4.h1"
    assert claimed_edges(folder, loaded.truth.graph) == ["a4.h1->logits", "embed->m0", "m0->a1.h1"]
    (tmp_path / "vocab.json").write_text(json.dumps({"<|endoftext|>": 0}))
    refused(lambda: load_published(folder), "not GPT-2's vocabulary", "no token for 'Aaron'")
    (tmp_path / "vocab.json").unlink()
    refused(lambda: load_published(folder), "put GPT-2's vocab.json beside it")


# What is wrong with them.


def edit_config(folder: Path, **changes: Any) -> None:
    config = published_config(interpbench.load("frac_prevs").network)
    (folder / "ll_model_cfg.pkl").write_bytes(pickle.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attn_only": True}, "attn_only=True"),
        ({"positional_embedding_type": "rotary"}, "rotary"),
        ({"act_fn": "solu"}, "activation"),
        ({"normalization_type": "BatchNorm"}, "normalization"),
        ({"n_layers": 3}, "lacks blocks.2.attn.W_K"),
        ({"n_heads": 5}, "blocks.0.attn.W_Q is"),
        ({"n_layers": 10**9}, "n_layers"),
        ({"d_model": 10**5, "d_mlp": 10**5}, "heads and MLPs, is not one of ours"),
        ({"n_layers": "many"}, "n_layers"),
        ({"d_vocab": None}, "d_vocab"),
        ({"use_attn_scale": False}, "use_attn_scale=False"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(folder: Path, changes: dict[str, Any], said: str) -> None:
    edit_config(folder, **changes)
    refused(lambda: interpbench.load(folder), str(folder), said)


def test_what_is_missing_or_of_another_task_is_named(folder: Path) -> None:
    other = Path(shutil.move(folder, folder.parent / "7"))
    refused(lambda: interpbench.load(other), "is not a model of task hist")
    other = Path(shutil.move(other, other.parent / "mine"))
    refused(lambda: interpbench.load(other), "Name the folder as it is there")
    other = Path(shutil.move(other, folder))
    (folder / "ll_model_cfg.pkl").unlink()
    refused(lambda: interpbench.load(folder), "has no ll_model_cfg.pkl")
    (folder / "ll_model.pth").unlink()
    refused(lambda: interpbench.load(folder), "no checkpoint")


class Call:
    """Pickles as a call."""

    def __init__(self, function: Any, *arguments: Any):
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


MARK = "interpbench-was-here"
TOUCH = f"touch {MARK}"
ATTACKS: dict[str, tuple[bytes, str]] = {
    "os.system": (pickle.dumps(Call(os.system, TOUCH)), "posix.system"),
    "old protocol": (pickle.dumps(Call(os.system, TOUCH), 0), "posix.system"),
    "nested": (pickle.dumps({"n_layers": [Call(eval, "1"), 2]}), "builtins.eval"),
    "getattr": (pickle.dumps(Call(getattr, 1, "real")), "builtins.getattr"),
    "in a known class": (pickle.dumps(OrderedDict(a=Call(exec, "1"))), "builtins.exec"),
    "a known class called wrongly": (
        pickle.dumps(Call(OrderedDict, [("a", 1)])),
        "a call of collections.OrderedDict",
    ),
    "state of a dict": (b"\x80\x02}}X\x01\x00\x00\x00aK\x01sb.", "no configuration"),
    "INST": (b"(S'echo'\nios\nsystem\n.", "the operation"),
    "OBJ": (b"(cos\nsystem\nS'echo'\no.", "os.system"),
    "NEWOBJ_EX": (b"\x80\x04ctorch\ndevice\n)}\x92.", "the operation NEWOBJ_EX"),
    "extension": (b"\x80\x02\x82\x01.", "the operation EXT1"),
    "persistent id": (b"Psomething\n.", "the operation PERSID"),
    "buffer": (b"\x80\x05\x97.", "the operation NEXT_BUFFER"),
    "module by stack": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "os.system"),
    "a name of names": (b"\x80\x04\x8c\x05torch\x8c\x0ddevice.system\x93.", "torch.device.system"),
    "a name through a tuple": (b"\x80\x04)\x8c\x06system\x93.", "damaged"),
    "bytes": (pickle.dumps(b"123"), "the operation SHORT_BINBYTES"),
    "set": (pickle.dumps({1}), "the operation EMPTY_SET"),
    "huge text": (b"\x80\x04\x8d" + (1 << 40).to_bytes(8, "little") + b"x.", "damaged"),
    "huge bytearray": (b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"x.", "damaged"),
    "huge number": (b"\x80\x02\x8b" + (1 << 30).to_bytes(4, "little") + b"1.", "damaged"),
    "huge decimal": (b"L" + b"9" * 100_000 + b"L\n.", "damaged"),
    "huge memo": (b"\x80\x02}r\xff\xff\xff\xff.", ""),
    "frame": (b"\x80\x04\x95" + (1 << 60).to_bytes(8, "little") + b"N.", ""),
    "memo of nothing": (b"\x80\x02h\x07.", "damaged"),
    "itself": (b"\x80\x02]q\x00h\x00a.", ""),
    "itself as a key": (b"\x80\x02}q\x00h\x00K\x01s.", "damaged"),
    "no end": (b"\x80\x02]", "damaged"),
    "nothing": (b"", "damaged"),
    "no stack": (b"\x80\x02.", "damaged"),
    "mark as a value": (b"\x80\x02(.", "damaged"),
    "too large": (b"\x80\x02" + b"N0" * MOST_PLAIN + b"N.", "at most"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_malicious_pickles_are_refused(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, said = ATTACKS[name]
    if said:
        refused(lambda: read_plain(data, "file"), "file", said)
    else:
        read_plain(data, "file")
    for file in ("ll_model_cfg.pkl", "edges.pkl"):
        before = (folder / file).read_bytes()
        (folder / file).write_bytes(data)
        refused(lambda: claimed_edges(folder, load_published(folder).truth.graph), file)
        (folder / file).write_bytes(before)
    assert not Path(MARK).exists()


def test_shared_parts_are_not_copied() -> None:
    """Each list holds the one before twice: 2^60 leaves, in a few hundred bytes."""
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    assert len(read_plain(pickle.dumps(value), "file")) == 2
    refused(lambda: read_plain(pickle.dumps({(1, 2): 3}), "file"), "damaged")


def weights_pickle(program: bytes, stored: dict[str, bytes], compressed: bool = False) -> bytes:
    """Returns an archive as `torch.save` makes it, of any program and storages."""
    buffer = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name, data in {"data.pkl": program, "byteorder": b"little", "version": b"3\n", **stored}.items():
            archive.writestr(f"archive/{name}", data)
    return buffer.getvalue()


def tensor_program(numel: int, size: int, stride: int = 1, key: str = "0") -> bytes:
    """Returns a program that makes a dict of one tensor."""
    text = lambda t: b"X" + len(t).to_bytes(4, "little") + t.encode()  # noqa: E731
    number = lambda n: b"\x8a\x09" + n.to_bytes(9, "little", signed=True)  # noqa: E731
    storage = (
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(numel) + b"tQ"
    )
    rest = (
        number(0) + number(size) + b"\x85" + number(stride) + b"\x85" + b"\x89ccollections\nOrderedDict\n)R"
    )
    return b"\x80\x02}" + text("a") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tRs."


WEIGHTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a call": (lambda: weights_pickle(pickle.dumps(Call(os.system, TOUCH), 2), {}), "posix.system"),
    "a call by stack": (lambda: weights_pickle(pickle.dumps(Call(os.system, TOUCH), 4), {}), "STACK_GLOBAL"),
    "not in the list": (lambda: weights_pickle(b"\x80\x02ctorch._utils\n_rebuild_qtensor\n.", {}), "qtensor"),
    "a storage that is too small": (
        lambda: weights_pickle(tensor_program(1 << 40, 4), {"data/0": b"12345678"}),
        "",
    ),
    "a tensor that is too large": (
        lambda: weights_pickle(tensor_program(2, 1 << 40), {"data/0": b"12345678"}),
        "",
    ),
    "a stride of zero": (
        lambda: weights_pickle(tensor_program(2, 1 << 40, 0), {"data/0": b"12345678"}),
        "other things than named tensors",
    ),
    "a bomb": (
        lambda: weights_pickle(tensor_program(1 << 20, 4), {"data/0": bytes(1 << 22)}, compressed=True),
        "compressed parts",
    ),
    "the old format": (lambda: b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "damaged"),
    "a pickle": (lambda: pickle.dumps({"a": 1}), "damaged"),
    "not tensors": (lambda: weights_pickle(pickle.dumps({"a": 1}, 2), {}), "other things than named tensors"),
    "a list": (lambda: weights_pickle(pickle.dumps([1], 2), {}), "no state dict"),
    "nothing": (lambda: b"", "damaged"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_malicious_weights_are_refused(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, said = WEIGHTS[name]
    (folder / "ll_model.pth").write_bytes(make())
    refused(lambda: interpbench.load(folder), str(folder / "ll_model.pth"), said)
    assert not Path(MARK).exists()


def test_the_programs_of_these_tests_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(ATTACKS["os.system"][0])
    assert Path(MARK).exists()
    (tmp_path / "w.pth").write_bytes(weights_pickle(tensor_program(2, 2), {"data/0": b"\0\0\x80?\0\0\0@"}))
    assert read_weights(tmp_path / "w.pth")["a"].tolist() == [1.0, 2.0]
    assert read_plain(pickled({"a": torch.float32, "b": (1, [True, None, 2.5])}), "file") == {
        "a": "torch.float32",
        "b": (1, [True, None, 2.5]),
    }
