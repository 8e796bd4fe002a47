"""The functions that all workers share; workers import this file as `theirs`, and no other of the project."""

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformer_lens import HookedTransformer, HookedTransformerConfig


def start() -> tuple[HookedTransformer, dict[str, torch.Tensor]]:
    """Loads the network and the inputs from the folder that is the script's first argument.

    The other arguments are folders with published code, which are put at the front of the import path. One
    thread is used.
    """
    torch.set_num_threads(1)
    folder, *paths = (Path(argument) for argument in sys.argv[1:])
    sys.path[:0] = [str(path) for path in paths]
    settings = json.loads((folder / "hooked_transformer.json").read_text())
    split = {"use_attn_result": True, "use_split_qkv_input": True, "use_hook_mlp_in": True}
    network = HookedTransformer(HookedTransformerConfig(**settings, **split))
    network.load_state_dict(load_file(folder / "hooked_transformer.safetensors"))
    network.eval()
    return network, load_file(folder / "problem.safetensors")


def serve(answers: dict[str, Callable[..., Any]]) -> None:
    """Answers each line of stdin, `{"what": name, **settings}`, with a line of JSON, until stdin ends.

    Output and warnings of the published code are suppressed.
    """
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            answer = answers[request.pop("what")](**request)
        print(json.dumps(answer), flush=True)
