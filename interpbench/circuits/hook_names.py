"""The names of TransformerLens's hooks, by which ACDC and the published files call nodes and readers."""

import re

from interpbench.circuits.components import EMBED, Node

_EMBEDDINGS = {"hook_embed", "hook_pos_embed", "blocks.0.hook_resid_pre"}
_WRITER = re.compile(r"blocks\.(\d+)\.(?:attn\.hook_result\[(\d+)\]|hook_mlp_out)")
_HEAD = re.compile(r"blocks\.(\d+)\.hook_[qkv]_input\[(\d+)\]")
_MLP = re.compile(r"blocks\.(\d+)\.hook_mlp_in")
_END = re.compile(r"blocks\.\d+\.hook_resid_post")


def writer_of(hook: str) -> Node | None:
    """Returns the node whose output a hook (`blocks.0.attn.hook_result[1]`) is at, or None."""
    if hook in _EMBEDDINGS:
        return EMBED
    found = _WRITER.fullmatch(hook)
    return Node(int(found[1]), None if found[2] is None else int(found[2])) if found else None


def destination_of(hook: str) -> str | None:
    """Returns the destination (`a0.h1`, `m0`, `logits`) that reads at a hook, or None."""
    if found := _HEAD.fullmatch(hook):
        return str(Node(int(found[1]), int(found[2])))
    if found := _MLP.fullmatch(hook):
        return str(Node(int(found[1])))
    return "logits" if _END.fullmatch(hook) else None
