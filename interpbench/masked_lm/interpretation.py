"""What traces say, in words and with intervals: peaks, context, and models against each other.

A layer counts as restoring something if its interval is above 0 and it restores a tenth of clean minus
corrupted: of an effect that is nothing, every rounding error is measurable. The residual stream at the mask
is never called the place of a fact, since after the last layer it carries all that the prediction needs.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from interpbench.core.estimate import Estimate
from interpbench.core.text import markdown, shown
from interpbench.masked_lm.patch_sites import COMPONENTS, Site
from interpbench.masked_lm.trace_figures import SITE_NAMES
from interpbench.masked_lm.trace_results import FLAT, TraceResult
from interpbench.scoring.intervals import bootstrap, resampling

SEEN = 0.0005
"""The smallest difference that three digits show."""
MISSED = 2.0
"""The factor by which attention must restore more than the MLP for the text to say that the MLP misses it."""


def interpretation(results: Sequence[TraceResult]) -> str:
    """Returns what results say, as Markdown: a section for each model, and one that compares them."""
    sections = sections_of(results, markdown).items()
    return "\n\n".join(
        "\n".join([f"## {title}\n", *(f"- {line}" for line in lines)]) for title, lines in sections
    )


def sections_of(
    results: Sequence[TraceResult], name_of: Callable[[str], str] = shown
) -> dict[str, list[str]]:
    """Returns what results say: sentences by title, a section for each model and one that compares them.

    Args:
        results: the results.
        name_of: returns the name of a model as it is written into the text.
    """
    found = {name_of(result.model_name): list(_of_model(result)) for result in results}
    if len(results) > 1:
        found["Models against each other"] = list(_compared(results, name_of))
    return found


def _of_model(result: TraceResult) -> Iterator[str]:
    """Yields the sentences about one model."""
    yield _context_needed(result)
    if result.read_at != "mask":
        yield f"Some prompts have no mask: the probability was read at the {result.read_at}."
    if result.num_facts == 1:
        yield "There is one fact, and so no interval: nothing here is known to hold of another one."
    for site in result.components:
        yield _peak(result, site)
    if result.components == COMPONENTS:
        mlp, attn = (result.peak_layer("mask_patch", site)[1] for site in COMPONENTS)
        if restores(result, _at_peak(result, "attn")) and attn > MISSED * max(mlp, 0):
            yield "The curve of the MLP alone would have missed this: attention restores more."
    if result.facts[0].heads:
        yield _heads(result)
    for site in result.components:
        yield _context_curve(result, site)
    if "resid" in result.sites:
        yield from _arrival(result)


def _context_needed(result: TraceResult) -> str:
    """Returns the sentence about clean minus corrupted."""
    low, high = result.difference.ends
    said = f"Clean minus corrupted is {told(result.difference)}: "
    if low > 0:
        return said + "the context word raises the probability of the target."
    if high < 0:
        return said + "the fact does not need the context; the target is likelier without it."
    return said + "whether the context word matters cannot be told, and so what follows says little."


def _peak(result: TraceResult, site: Site) -> str:
    """Returns the sentence about the peak of a component at the mask."""
    layer, _ = result.peak_layer("mask_patch", site)
    peak = _at_peak(result, site)
    said = f"{_begin(SITE_NAMES[site])} at the mask restores most in layer {layer}: {told(peak)}"
    if not restores(result, peak):
        return f"{said}. That is {_too_little(peak)}, so there is no peak."
    share = result.peak_share("mask_patch", site)
    if result.difference.ends[0] > 0:
        said += f", which is {peak.value / result.difference.value:.0%} of what the context word makes"
    if result.num_facts == 1:
        return f"{said}."
    return f"{said}. The peak is in this layer in {share:.0%} of bootstrap samples of facts."


def _heads(result: TraceResult) -> str:
    """Returns the sentence about the head that restores most."""
    heads = result.head_map()
    values = np.array([[one.value for one in row] for row in heads])
    layer, head = np.unravel_index(int(values.argmax()), values.shape)
    best = heads[layer][head]
    said = f"Of all heads at the mask, head {head} of layer {layer} restores most: {told(best)}"
    if not restores(result, best):
        return f"{said}, which is {_too_little(best)}."
    if "attn" in result.sites and MISSED * best.value < result.peak_layer("mask_patch", "attn")[1]:
        return f"{said}. No head alone does what the attention of a layer does."
    return f"{said}."


def _context_curve(result: TraceResult, site: Site) -> str:
    """Returns the sentence about whether a component's curve at the context word is flat."""
    curve = result.curve("context_patch", site)
    layer = int(np.argmax([one.value for one in curve]))
    most = curve[layer]
    name = f"{_begin(SITE_NAMES[site])} at the context word"
    if not restores(result, most):
        return f"{name} restores next to nothing (at most {told(most)}, layer {layer}): its curve is flat."
    return f"{name} restores most in layer {layer}: {told(most)}."


def _arrival(result: TraceResult) -> Iterator[str]:
    """Yields what the residual stream says: where the answer is, never where it is stored."""
    if result.difference.ends[0] <= 0:
        return
    half = result.difference.value / 2
    mask, context = (result.curve(name, "resid") for name in ("mask_patch", "context_patch"))
    first = next((layer for layer, one in enumerate(mask) if one.value >= half), None)
    last = next((layer for layer in reversed(range(len(context))) if context[layer].value >= half), None)
    if first is not None:
        yield (
            f"The residual stream at the mask holds half of it from layer {first} on. This says when the "
            "answer arrives, not where it is stored: after the last layer the curve always reaches all of it."
        )
    if last is not None:
        yield f"The residual stream at the context word holds half of it up to layer {last}."


def _compared(results: Sequence[TraceResult], name_of: Callable[[str], str]) -> Iterator[str]:
    """Yields the sentences that compare each model with the first."""
    first = results[0]
    for other in results[1:]:
        names = f"{name_of(other.model_name)} and {name_of(first.model_name)}"
        paired = [fact.fact for fact in first.facts] == [fact.fact for fact in other.facts]
        if paired and first.num_facts > 1:
            gap = _gap(other, first)
            sure = abs(gap.value) >= SEEN and (gap.ends[0] > 0 or gap.ends[1] < 0)
            verdict = ("more" if gap.value > 0 else "less") if sure else "not measurably more or less"
            yield (
                f"{names}: the context word matters {verdict} to the former; clean minus corrupted differs "
                f"by {told(gap)}, on the same facts."
            )
        for site in first.components if first.components == other.components else ():
            peaks = [_at_peak(one, site) for one in (other, first)]
            if all(restores(one, peak) for one, peak in zip((other, first), peaks)):
                depths = [
                    (one.peak_layer("mask_patch", site)[0] + 1) / one.num_layers for one in (other, first)
                ]
                yield (
                    f"{names}: {SITE_NAMES[site]} peaks at {depths[0]:.0%} and {depths[1]:.0%} of the depth, "
                    f"with {told(peaks[0])} and {told(peaks[1])}."
                )
    yield "A smaller peak is no weaker knowledge: where the context matters less, there is less to restore."


def _gap(one: TraceResult, other: TraceResult) -> Estimate:
    """Returns by how much clean minus corrupted differs, with an interval over the facts of both."""
    gaps = np.array(
        [
            (mine.clean - mine.corrupt) - (theirs.clean - theirs.corrupt)
            for mine, theirs in zip(one.facts, other.facts)
        ]
    )
    prompts = np.array([fact.prompts for fact in one.facts])
    weights = resampling(len(gaps), "facts") * prompts
    return bootstrap(float(prompts @ gaps / prompts.sum()), weights @ gaps / weights.sum(1))


def _at_peak(result: TraceResult, site: Site) -> Estimate:
    layer, _ = result.peak_layer("mask_patch", site)
    return result.curve("mask_patch", site)[layer]


def restores(result: TraceResult, estimate: Estimate) -> bool:
    """Returns whether an activation restores anything: measurably, and a share `FLAT` of what there is."""
    return estimate.ends[0] > 0 and estimate.value >= FLAT * abs(result.difference.value)


def _too_little(estimate: Estimate) -> str:
    return "next to nothing" if estimate.ends[0] > 0 else "not above 0"


def told(estimate: Estimate) -> str:
    """Returns a number with its interval, in three digits."""
    value, low, high = (
        f"{number:.3f}".replace("-0.000", "0.000") for number in (estimate.value, *estimate.ends)
    )
    return value if estimate.kind == "none" else f"{value} [{low}, {high}]"


def _begin(text: str) -> str:
    """Returns a name as the beginning of a sentence."""
    return f"The {text}" if text.isupper() else text[:1].upper() + text[1:]
