"""Causal tracing as a literal loop: one patch a forward pass, at modules that are named for each family.

It takes a pair of prompts as tokens, and nothing else, from the project.
"""

import torch

MODULES = {
    "bert": ("bert.encoder.layer.{}", "output.dense", "attention.output.dense"),
    "roberta": ("roberta.encoder.layer.{}", "output.dense", "attention.output.dense"),
    "camembert": ("roberta.encoder.layer.{}", "output.dense", "attention.output.dense"),
    "distilbert": ("distilbert.transformer.layer.{}", "ffn.lin2", "attention.out_lin"),
    "modernbert": ("model.layers.{}", "mlp.Wo", "attn.Wo"),
    "electra": ("electra.encoder.layer.{}", "output.dense", "attention.output.dense"),
    "deberta": ("deberta.encoder.layer.{}", "output.dense", "attention.output.dense"),
    "deberta-v2": ("deberta.encoder.layer.{}", "output.dense", "attention.output.dense"),
    "mpnet": ("mpnet.encoder.layer.{}", "output.dense", "attention.attn.o"),
}
"""For each family a layer, and within it the last linear maps of MLP and attention; ALBERT is unlike them."""
SHARED = (
    "albert.encoder.albert_layer_groups.0",
    "albert_layers.0.ffn_output",
    "albert_layers.0.attention.dense",
)


def module_at(model, family, site, layer):
    """Returns the module of a site in a layer."""
    whole, mlp, attn = SHARED if family == "albert" else MODULES[family]
    path = {"resid": "", "mlp": f".{mlp}", "attn": f".{attn}", "heads": f".{attn}"}[site]
    return model.get_submodule(whole.format(layer) + path)


class Patch:
    """Records what a module gives or gets, or changes a part of it, at one call of a forward pass."""

    def __init__(self, model, family, site, layer):
        self.wanted = layer if family == "albert" else 0
        self.module, self.inputs = module_at(model, family, site, layer), site == "heads"

    def run(self, function, change=None):
        """Returns what was there, unchanged, and what a function returns meanwhile."""
        calls, seen = 0, []

        def treat(found):
            nonlocal calls
            calls += 1
            if calls - 1 != self.wanted:
                return found
            tensor = found[0] if isinstance(found, tuple) else found
            seen.append(tensor.clone())
            if change is None:
                return found
            new = tensor.clone()
            change(new)
            return (new, *found[1:]) if isinstance(found, tuple) else new

        if self.inputs:
            handle = self.module.register_forward_pre_hook(lambda module, inputs: treat(inputs))
        else:
            handle = self.module.register_forward_hook(lambda module, inputs, output: treat(output))
        result = function()
        handle.remove()
        return seen[0], result


def probability(model, ids, positions, target):
    """Returns the product of the probabilities of tokens at positions of one prompt."""
    tokens = torch.tensor([ids])
    logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits[0].double()
    product = 1.0
    for position, token in zip(positions, target):
        product *= float(torch.softmax(logits[position], 0)[token])
    return product


@torch.inference_mode()
def restored(model, family, pair, site, positions, layer, head=None):
    """Returns the probability that one clean activation restores, of a head's share if it is given."""

    def run(ids):
        return probability(model, ids, pair.places["mask"], pair.target)

    patch = Patch(model, family, site, layer)
    clean, _ = patch.run(lambda: run(pair.clean))
    width = clean.shape[-1] // model.config.num_attention_heads
    share = slice(None) if head is None else slice(head * width, (head + 1) * width)

    def change(tensor):
        for position in positions:
            tensor[0, position, share] = clean[0, position, share]

    return patch.run(lambda: run(pair.corrupt), change)[1] - run(pair.corrupt)
