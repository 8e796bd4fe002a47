"""Networks with faults that a careless certificate would not find, made by hand from right networks.

A right network gets new features of the residual stream, which only new weights read and write: `constant` is
1 everywhere, `place` marks the position of the first token, `token` marks one token, and `signal` changes a
logit.
"""

import dataclasses

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.transformer.model import Transformer

CONSTANT, PLACE, TOKEN, SIGNAL, SHARE = range(5)
"""The indices of the new features, counted from the last old one."""


def right_network(name):
    """Returns the network of a released model."""
    return load_checkpoint(released()[name]).network.requires_grad_(False)


def widened(network, extra=5, heads=0, hidden=0):
    """Returns a network that computes the same, with more features, heads and hidden units of weight 0."""
    cfg = network.cfg
    cfg = dataclasses.replace(
        cfg, d_model=cfg.d_model + extra, n_heads=cfg.n_heads + heads, d_mlp=cfg.d_mlp + hidden
    )
    wide = Transformer(cfg, 0).requires_grad_(False)
    for name, parameter in wide.named_parameters():
        old = network.get_parameter(name)
        parameter.zero_()
        parameter[tuple(slice(size) for size in old.shape)] = old
    return wide


def marked(network, token=0, extra=5, heads=0, hidden=0):
    """Returns a widened network whose embedding fills the new features."""
    wide, first = widened(network, extra, heads, hidden), network.cfg.d_model
    wide.pos_embed.W_pos[:, first + CONSTANT] = 1
    wide.pos_embed.W_pos[1, first + PLACE] = 1
    wide.embed.W_E[token, first + TOKEN] = 1
    wide.unembed.W_U[first + SIGNAL, 0] = 1
    return wide


def conspiracy(name, size):
    """Returns a network, and ten of its heads, which make it wrong only if five are patched and five are not.

    Each of these heads detects whether the first token is the first one of the vocabulary. A hidden unit of
    the last MLP fires if all of the first five detect it and none of the last five does, as when the first
    five are patched from a source with another first token. The heads, (layer, head), and the unit are added
    to a right network.
    """
    network = right_network(name)
    cfg, start = network.cfg, network.cfg.d_model
    wide = marked(network, extra=15, heads=-(-10 // cfg.n_layers), hidden=1)
    added = range(cfg.n_heads, wide.cfg.n_heads)
    members = [(layer, head) for layer in range(cfg.n_layers) for head in added][-10:]
    for number, (layer, head) in enumerate(members):
        attn = wide.blocks[layer].attn
        attn.W_Q[head, start + CONSTANT, 0] = 20 * wide.cfg.d_head**0.5
        attn.W_K[head, start + PLACE, 0] = 1
        attn.W_V[head, start + TOKEN, 0] = 1
        attn.W_O[head, 0, start + 5 + number] = 1
    mlp = wide.blocks[-1].mlp
    mlp.W_in[start + 5 : start + 10, -1] = 100
    mlp.W_in[start + 10 :, -1] = -100
    mlp.b_in[-1] = -100 * 4.5
    mlp.W_out[-1, start + SIGNAL] = size / 50
    return wide, members


def cancelling_heads(name, size, layer=1, signs=(1, 1, -1, -1), added=False):
    """Returns a network with forbidden heads whose effects cancel.

    They detect whether the first token is the first of the vocabulary. Two of them add `size` to the logit of
    the first class, and two subtract it. The effect of each alone is too small to change an answer, and those
    of all cancel, but two of the same sign change answers. They replace the first heads of the layer, or are
    added to it.
    """
    network = right_network(name)
    wide, first = marked(network, heads=len(signs) if added else 0), network.cfg.d_model
    attn = wide.blocks[layer].attn
    for head, sign in enumerate(signs, network.cfg.n_heads if added else 0):
        for weight in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O, attn.b_Q, attn.b_K, attn.b_V):
            weight[head] = 0
        attn.W_Q[head, first + CONSTANT, 0] = 20 * wide.cfg.d_head**0.5
        attn.W_K[head, first + PLACE, 0] = 1
        attn.W_V[head, first + TOKEN, 0] = 1
        attn.W_O[head, 0, first + SIGNAL] = sign * size
    return wide


def one_token_only(name, size, layer=0, head=3):
    """Returns a network that is wrong only if every token is the first one of the vocabulary.

    A forbidden head computes the share of such tokens, and a hidden unit of the last MLP fires if it is 1.
    """
    network = right_network(name)
    wide, first = marked(network), network.cfg.d_model
    attn, mlp = wide.blocks[layer].attn, wide.blocks[-1].mlp
    for weight in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O, attn.b_Q, attn.b_K, attn.b_V):
        weight[head] = 0
    length = wide.cfg.n_ctx - 1
    attn.W_V[head, first + TOKEN, 0] = (length + 1) / length  # BOS has a share of the attention, too
    attn.W_O[head, 0, first + SHARE] = 1
    mlp.W_in[:, 0], mlp.b_in[0], mlp.W_out[0] = 0, 0, 0
    mlp.W_in[first + SHARE, 0] = 1000
    mlp.b_in[0] = -1000 * (1 - 0.5 / length**2)  # one other token, even before the last, is too many
    mlp.W_out[0, first + SIGNAL] = size / (1000 * 0.5 / length**2)
    return wide


def canary(name, heads, threshold, size=1000):
    """Returns a network in which one forbidden edge has an effect if it is patched alone, but no gradient.

    Heads that are added to layer 0 attend to the first token of the vocabulary, or to BOS, and read there
    whether the token is the second one. It is not, unless one of their edges is patched, so that keys or
    values come from another input. A hidden unit of the last MLP fires if the first of these heads reads more
    than `threshold` and no other does, so that it does not fire when sets of edges are patched.
    """
    network = right_network(name)
    cfg, start = network.cfg, network.cfg.d_model
    wide = widened(network, extra=4 + heads, heads=heads, hidden=1)
    constant, keys, values, signal = range(start, start + 4)
    wide.pos_embed.W_pos[:, constant] = 1
    wide.embed.W_E[[0, cfg.d_vocab - 2], keys] = 1
    wide.embed.W_E[1, values] = 1
    wide.unembed.W_U[signal, 0] = 1
    attn, mlp = wide.blocks[0].attn, wide.blocks[-1].mlp
    for number in range(heads):
        head = cfg.n_heads + number
        attn.W_Q[head, constant, 0] = 30 * wide.cfg.d_head**0.5
        attn.W_K[head, keys, 0] = 1
        attn.W_V[head, values, 0] = 1
        attn.W_O[head, 0, start + 4 + number] = 1
    mlp.W_in[start + 4, -1] = 1000
    mlp.W_in[start + 5 :, -1] = -20_000
    mlp.b_in[-1] = -1000 * threshold
    mlp.W_out[-1, signal] = size
    return wide, f"embed->a0.h{cfg.n_heads}<v>"


def absorbed(name, heads, threshold, size=64, step=0.02):
    """Returns a network in which an edge into the last layer has an effect by rounding alone.

    A feature is so large that what a head adds to it is lost by rounding, unless a patched edge adds a little
    more. The sum is then rounded up by a unit in the last place, from which a hidden unit of the last MLP
    makes another answer. In exact arithmetic almost nothing would change. The other heads prevent the effect
    when random sets of edges are patched.
    """
    large = 1.5 * 2**24  # numbers of this size are 2 apart in single precision
    network = right_network(name)
    cfg, start = network.cfg, network.cfg.d_model
    wide = widened(network, extra=5, heads=heads, hidden=1)
    constant, keys, values, signal, sum_ = range(start, start + 5)
    wide.pos_embed.W_pos[:, constant] = 1
    wide.embed.W_E[[0, cfg.d_vocab - 2], keys] = 1
    wide.embed.W_E[1, values] = 1
    wide.pos_embed.W_pos[:, sum_] = large
    wide.unembed.W_U[signal, 0] = 1
    attn, mlp = wide.blocks[-1].attn, wide.blocks[-1].mlp
    for number in range(heads):
        head = cfg.n_heads + number
        attn.W_Q[head, constant, 0] = 30 * wide.cfg.d_head**0.5
        attn.W_K[head, keys, 0] = 1
        attn.W_V[head, values, 0] = 1
        attn.W_O[head, 0, sum_] = step if number == 0 else -3 * step
    first = cfg.n_heads
    attn.b_V[first, 1] = 64
    attn.W_O[first, 1, sum_] = (1 - step * threshold) / 64
    mlp.W_in[sum_, -1], mlp.b_in[-1], mlp.W_out[-1, signal] = 1, -large, size
    return wide, f"embed->a{cfg.n_layers - 1}.h{first}<v>"


def without_gradients(network):
    """Returns a network that computes the same, and whose gradients through a hidden unit are NaN.

    The input of the unit is so far below 0 that its derivative is 0 times infinity.
    """
    cfg = dataclasses.replace(network.cfg, activation="gelu_new")
    dead = Transformer(cfg, 0).requires_grad_(False)
    dead.load_state_dict(network.state_dict())
    mlp = dead.blocks[0].mlp
    mlp.W_in[:, -1], mlp.W_out[-1], mlp.b_in[-1] = 0, 0, -1e20
    return dead
