"""Every released model opens in TransformerLens 4 and comes back, and is written for versions 1 to 3.

`make test-transformer-lens` makes an environment with the last release of each and runs the test that needs
it; otherwise INTERPBENCH_TL says where such a Python is. Recorded: with transformer-lens 1.19.0, 2.18.0 and
3.9.0, and torch 2.13.0, every model loads strictly and all logits agree.

Logits agree to 1e-10 in double precision. In single precision, where logits of up to 414 are sums of rounded
numbers, they agree to 1e-5 of the largest, as near as either is to the exact value.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.hooked import CONFIG, STATE, hooked_state, save_hooked
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.errors import CheckpointError
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer
from tests.builders import SAMPLE

MODELS = released()
close = torch.testing.assert_close
OTHER = """
import json, sys, torch
from pathlib import Path
from safetensors.torch import load_file
from transformer_lens import HookedTransformer, HookedTransformerConfig
for folder in map(Path, sys.argv[1:]):
    config = json.loads((folder / "hooked_transformer.json").read_text())
    state = load_file(folder / "hooked_transformer.safetensors")
    wanted = load_file(folder / "expected.safetensors")
    logits = []
    for dtype in (torch.float32, torch.float64):
        model = HookedTransformer(HookedTransformerConfig(**config, dtype=dtype))
        model.load_state_dict(state, strict=True)
        logits.append(model(wanted["tokens"]).detach())
    single, double = logits
    largest = wanted["double"].abs().max().clamp(min=1)
    assert (single - wanted["double"]).abs().max() < 1e-5 * largest, folder
    assert (double - wanted["double"]).abs().max() < 1e-10, folder
    print(folder.name)
"""


@pytest.mark.parametrize("name", SAMPLE)
def test_every_model_makes_the_round_trip(name: str) -> None:
    model, tokens = load_checkpoint(MODELS[name]).network, load_pairs(MODELS[name]).clean
    wanted, bridge = model(tokens), model.to_transformer_lens()
    close(bridge(tokens), wanted, atol=1e-5 * max(1, float(wanted.abs().max())), rtol=0)
    back = Transformer.from_transformer_lens(bridge)
    close(back(tokens), wanted, atol=0, rtol=0)
    close(dict(back.state_dict()), dict(model.state_dict()), atol=0, rtol=0)
    close(model.double().to_transformer_lens()(tokens), model(tokens), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["frac_prevs", "hist"])
def test_what_is_written_is_the_model_and_two_constants_a_layer(name: str, tmp_path: Path) -> None:
    model = load_checkpoint(MODELS[name]).network
    save_hooked(model, tmp_path)
    state, ours = load_file(tmp_path / STATE), model.state_dict()
    close({key: state[key] for key in ours}, dict(ours), atol=0, rtol=0)
    masks = [state[f"blocks.{layer}.attn.mask"] for layer in range(model.cfg.n_layers)]
    assert all(mask.all() == (model.cfg.attention == "bidirectional") for mask in masks)
    assert len(state) == len(ours) + 2 * model.cfg.n_layers
    config = json.loads((tmp_path / CONFIG).read_text())
    assert (config["d_vocab_out"], config["normalization_type"]) == (model.cfg.d_out, model.cfg.normalization)
    assert state.keys() == hooked_state(model).keys()


@pytest.mark.transformer_lens
@pytest.mark.skipif(
    "INTERPBENCH_TL" not in os.environ,
    reason="takes minutes to install another TransformerLens: make test-transformer-lens",
)
def test_an_older_transformer_lens_has_the_same_logits(tmp_path: Path) -> None:
    for name, folder in MODELS.items():
        model, tokens = load_checkpoint(folder).network, load_pairs(folder).clean[:64].contiguous()
        save_hooked(model, tmp_path / name)
        wanted = model.double()(tokens).contiguous()
        save_file({"tokens": tokens, "double": wanted}, tmp_path / name / "expected.safetensors")
    command = [os.environ["INTERPBENCH_TL"], "-c", OTHER, *(str(tmp_path / name) for name in MODELS)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == list(MODELS)


def test_parts_that_it_does_not_write_are_refused(tmp_path):
    cfg = TransformerConfig(1, 2, 8, 4, 16, 5, 3, 4, positions="rotary", mlp="gated")
    with pytest.raises(CheckpointError, match="not written for rotary positions and gated MLP; network"):
        save_hooked(Transformer(cfg), tmp_path)
    assert not list(tmp_path.iterdir())
