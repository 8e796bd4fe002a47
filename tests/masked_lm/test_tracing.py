"""Tracing with models in folders: what a trained one shows, results as files, and models that do not load."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from interpbench.core.errors import TraceError, UnknownNameError
from interpbench.masked_lm import CausalTracer, TraceResult, generate_from_spec, load_results, save_results
from interpbench.masked_lm.encoder_files import load_encoder, load_tokenizer
from interpbench.masked_lm.interpretation import interpretation
from interpbench.masked_lm.prompt_rows import PromptRow, row_of
from interpbench.masked_lm.trace_results import FactTrace
from tests.masked_models import LANDS, TEMPLATES, fact, facts, make, save, spec, untrained, word_pieces

FolderOf = Callable[[str], Path]
PUBLISHED = {
    *("model_name", "model_id", "num_layers", "num_facts", "mask_patch", "context_patch"),
    "clean_minus_corrupt",
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> list[PromptRow]:
    return generate_from_spec(spec(tmp_path_factory.mktemp("dataset"), {"m": Path("m")}))[0]


@pytest.fixture(scope="module")
def trained(trained_model: FolderOf, dataset: list[PromptRow]) -> TraceResult:
    tracer = CausalTracer("Tiny", str(trained_model("modernbert")))
    result = tracer.trace(dataset)
    tracer.release()
    return result


def test_a_trained_model_needs_attention_and_the_mlp_curve_misses_it(trained: TraceResult) -> None:
    assert trained.clean_minus_corrupt > 0.9 and trained.difference.ends[0] > 0.8
    mlp, attn = (trained.peak_layer("mask_patch", site) for site in ("mlp", "attn"))  # type: ignore[arg-type]
    assert attn[1] > 0.3 > 0.1 > mlp[1]
    assert trained.peak_layer() == mlp and trained.mask_patch[mlp[0]] == max(trained.mask_patch)
    assert "The curve of the MLP alone would have missed this" in interpretation([trained])


def test_the_residual_stream_peaks_last_and_is_not_reported_as_storage(trained: TraceResult) -> None:
    curve = [one.value for one in trained.curve("mask_patch", "resid")]
    assert trained.peak_layer("mask_patch", "resid") == (
        2,
        pytest.approx(trained.clean_minus_corrupt, abs=1e-6),
    )
    assert curve == sorted(curve)
    text = interpretation([trained])
    assert "not where it is stored" in text
    assert "esidual stream at the mask restores most" not in text and "esidual stream peaks" not in text
    context = [one.value for one in trained.curve("context_patch", "resid")]
    assert context[0] > 0.5 > abs(context[-1])


def test_results_are_the_same_after_saving(trained: TraceResult, tmp_path: Path) -> None:
    save_results([trained], tmp_path / "trace_results.json")
    (read,) = load_results(tmp_path / "trace_results.json")
    assert read == trained and read.to_dict() == trained.to_dict()
    plain = json.loads((tmp_path / "trace_results.json").read_text())["Tiny"]
    assert set(plain) >= PUBLISHED and plain == json.loads(json.dumps(trained.to_dict()))
    assert plain["num_layers"] == 3 == len(plain["mask_patch"]) and plain["num_facts"] == 12
    assert plain["curves"]["attn"]["mask_patch"][0][3] == "bootstrap"
    assert np.shape(plain["heads"]) == (3, 4, 4)


def test_the_same_facts_give_the_same_numbers(
    trained_model: FolderOf, dataset: list[PromptRow], trained: TraceResult
) -> None:
    assert CausalTracer("Tiny", str(trained_model("modernbert"))).trace(dataset) == trained


def made_up(clean: list[float], prompts: list[int], name: str = "m") -> TraceResult:
    """Returns a result of two layers, in which what is restored is a share of what is lost."""
    found = [
        FactTrace(
            fact=f"fact {at}",
            prompts=count,
            has_mask=True,
            clean=value,
            corrupt=0.1,
            restored={
                site: {"mask": [0.2 * value, share * value], "context": [0.0, 0.0]}  # type: ignore[misc]
                for site, share in (("mlp", 0.4), ("attn", 0.5))
            },
            heads=[],
        )
        for at, (value, count) in enumerate(zip(clean, prompts))
    ]
    return TraceResult(name, "x", found)


def test_means_are_over_prompts_and_intervals_over_facts() -> None:
    result = made_up([0.1, 0.4, 0.9], [1, 1, 4])
    assert result.clean_minus_corrupt == pytest.approx((0 + 0.3 + 4 * 0.8) / 6)
    assert result.mask_patch == pytest.approx([0.2 * 4.1 / 6, 0.4 * 4.1 / 6])
    assert result.num_facts == 3 and result.num_prompts == 6 and result.num_layers == 2
    assert result.peak_layer() == (1, pytest.approx(0.4 * 4.1 / 6)) and result.peak_share() == 1
    assert result.difference.kind == "bootstrap"
    assert result.difference.ends == (pytest.approx(0), pytest.approx(0.8)), "of three facts, one may be all"
    same = made_up([0.5] * 9, [2] * 9).curve("mask_patch", "attn")
    assert [one.ends for one in same] == [(pytest.approx(0.1),) * 2, (pytest.approx(0.25),) * 2]
    alone = made_up([0.5], [3])
    assert (alone.difference.kind, alone.difference.value) == ("none", pytest.approx(0.4))
    assert "no interval" in interpretation([alone])


@pytest.mark.parametrize("prompts", [[1] * 12, [4, 4, 4, *[1] * 9]])
def test_intervals_are_those_of_resampled_facts(prompts: list[int]) -> None:
    """An independent bootstrap gives nearly the same ends; a fact brings all its prompts."""
    clean = list(np.linspace(0.15, 0.95, 12))
    rng = np.random.default_rng(5)
    drawn = rng.integers(12, size=(20_000, 12))
    counts = np.array(prompts)[drawn]
    draws = (np.array(clean)[drawn] * counts).sum(1) / counts.sum(1) - 0.1
    found = made_up(clean, prompts).difference
    assert found.ends == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.03)


def test_the_sign_of_clean_minus_corrupted_is_interpreted() -> None:
    for clean, said in (
        ([0.9] * 8, "the context word raises the probability"),
        ([0.02] * 8, "the fact does not need the context"),
        ([0.02, 0.2] * 4, "cannot be told"),
    ):
        assert said in interpretation([made_up(clean, [1] * 8)])


@pytest.mark.parametrize(
    ("mask", "context", "said"),
    [
        (
            [0.5] * 8,
            [0.3] * 8,
            ("83% of what the context", "restores most in layer 1: 0.300 [0.300, 0.300]."),
        ),
        ([-0.5, 0.6] * 4, [0.3, -0.4] * 4, ("not above 0, so there is no peak", "its curve is flat")),
        ([0.5] * 8, [0.01] * 8, ("in 100% of bootstrap samples", "its curve is flat")),
        ([0.5] * 8, [-0.4] * 8, ("The peak is in this layer", "its curve is flat")),
        ([1e-7] * 8, [0.3] * 8, ("next to nothing, so there is no peak", "restores most in layer 1")),
        ([0.05] * 8, [-1e-7] * 8, ("0.050 [0.050, 0.050]. That is next to nothing", "(at most 0.000 [0.000")),
    ],
)
def test_a_peak_and_a_curve_that_is_not_flat_are_above_0(
    mask: list[float], context: list[float], said: tuple[str, str]
) -> None:
    """In all facts, by their intervals; what is next to nothing beside clean minus corrupted is flat."""
    facts_of = [
        FactTrace(
            fact=str(at),
            prompts=1,
            has_mask=True,
            clean=0.7,
            corrupt=0.1,
            restored={"mlp": {"mask": [0.0, one], "context": [0.0, other]}},
            heads=[],
        )
        for at, (one, other) in enumerate(zip(mask, context))
    ]
    text = interpretation([TraceResult("m", "x", facts_of)])
    assert all(part in text for part in said), text


def test_one_fact_has_no_share_of_bootstrap_samples() -> None:
    text = interpretation([made_up([0.9], [1])])
    assert "There is one fact" in text and "restores most in layer" in text and "bootstrap" not in text


def test_rounding_errors_tell_no_models_apart() -> None:
    one, two = made_up([0.9] * 8, [1] * 8, "one"), made_up([0.9 + 1e-7] * 8, [1] * 8, "two")
    text = interpretation([one, two])
    assert "matters not measurably more or less" in text and "-0.000" not in text


def test_a_released_tracer_says_so(random_model: FolderOf, dataset: list[PromptRow]) -> None:
    tracer = CausalTracer("bert", str(random_model("bert")))
    tracer.release()
    with pytest.raises(TraceError, match="bert was released; make another CausalTracer"):
        tracer.trace(dataset)


def test_models_are_compared_on_the_same_facts() -> None:
    many, few = made_up([0.9] * 8, [1] * 8, "many"), made_up([0.3] * 8, [1] * 8, "few")
    text = interpretation([few, many])
    assert "many and few: the context word matters more to the former" in text
    assert (
        "differs by 0.600 [0.600, 0.600]" in text and "attention peaks at 100% and 100% of the depth" in text
    )
    assert "matters less to the former" in interpretation([many, few])


def test_text_escapes_names_of_models() -> None:
    assert "\\*m\\*" in interpretation([made_up([0.5] * 8, [1] * 8, "*m*")])


def test_unknown_curves_and_damaged_results(trained: TraceResult, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean mask_patch"):
        trained.peak_layer("mask_pach")
    with pytest.raises(TraceError, match="was not patched at the subject of the site mlp everywhere"):
        trained.curve("subject_patch")
    plain = trained.to_dict()
    plain["facts"][0]["restored"]["mlp"]["mask"] = [0.1]
    for text, said in ((json.dumps({"Tiny": plain}), "as many layers"), ("[]", "is damaged"), ("{", "JSON")):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(TraceError, match=said):
            load_results(tmp_path / "r.json")


def test_the_subject_has_a_curve_where_it_stands_in_all_prompts(random_model: FolderOf) -> None:
    from interpbench.masked_lm import FactSpec

    one = FactSpec("spain", "japan", "people in {} speak [MASK]", "spanish", "people", "language")
    tracer = CausalTracer("m", str(random_model("bert")))
    result = tracer.trace([row_of(one, "", ""), row_of(one, "we know: ", ".")])
    assert result.num_facts == 1 and result.num_prompts == 2
    values = [each.value for each in result.curve("subject_patch", "resid")]
    assert len(values) == 3 and values[-1] == pytest.approx(0, abs=1e-6) and max(map(abs, values)) > 1e-6
    assert "subject_patch" in result.to_dict()["curves"]["mlp"]


def test_prompts_without_a_mask_are_read_at_the_subject(random_model: FolderOf) -> None:
    row = row_of(fact("spain", TEMPLATES[0]), "", "")
    for name in ("mask_prompt", "corrupt_mask_prompt"):
        row[name] = row[name].replace("[MASK]", "spanish")
    tracer = CausalTracer("m", str(random_model("bert")))
    result = tracer.trace([row], heads=False)
    assert result.read_at == "subject" and result.to_dict()["read_at"] == "subject"
    assert result.to_dict()["heads"] == [] and "was read at the subject" in interpretation([result])


def test_a_fact_that_a_model_cannot_read_is_said_before_anything_is_run(random_model: FolderOf) -> None:
    tracer = CausalTracer("m", str(random_model("bert")))
    tracer.model.forward = None  # whatever runs it fails
    rows = [row_of(one, "", "") for one in [*facts(), fact("portugal", "we know the language of {} is {{}}")]]
    rows[-1]["context_to"] = "japan"
    with pytest.raises(TraceError, match=r"m: .*'portugal' replaced by 'japan'"):
        tracer.trace(rows)


@pytest.mark.parametrize("name", ["nobody/has-this", "nobody", "bert-base-unheard-of"])
def test_a_model_that_is_not_there_fails_at_once(name: str) -> None:
    """No test may use the network: with `HF_HUB_OFFLINE`, and with `local_files_only`."""
    for options in ({}, {"local_files_only": True}):
        with pytest.raises(
            TraceError, match=f"cannot load the tokenizer {name}: is the address right"
        ) as error:
            CausalTracer("m", name, **options)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["./no/such/folder", "a/b/c", "", "../x", "a b"])
def test_what_is_no_address_is_refused(name: str) -> None:
    with pytest.raises(TraceError, match="is no folder, and no address on the hub"):
        CausalTracer("m", name)


def test_code_that_comes_with_a_model_is_not_executed(random_model: FolderOf, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(random_model("bert"), tmp_path / "own"))
    config = json.loads((folder / "config.json").read_text())
    own = {
        **config,
        "model_type": "mine",
        "auto_map": {"AutoConfig": "own.C", "AutoModelForMaskedLM": "own.M"},
    }
    (folder / "config.json").write_text(json.dumps(own))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    with pytest.raises(TraceError, match="trust_remote_code") as error:
        CausalTracer("m", str(folder))
    assert "read it, and allow it" in str(error.value) and not (tmp_path / "executed").exists()


@pytest.mark.parametrize("asked", [False, True])
def test_what_is_asked_for_is_handed_on(
    asked: bool, random_model: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code and the network are used only if they are asked for; weights that are no safetensors never are."""
    import transformers

    heard = list[dict[str, Any]]()

    def refuse(name: str, **options: Any) -> None:
        heard.append(options)
        raise OSError("not now")

    for kind, load in (("AutoTokenizer", load_tokenizer), ("AutoModelForMaskedLM", load_encoder)):
        monkeypatch.setattr(getattr(transformers, kind), "from_pretrained", refuse)
        with pytest.raises(TraceError, match="not now"):
            load("owner/name", trust_remote_code=asked, local_files_only=asked)
    assert [(one["trust_remote_code"], one["local_files_only"]) for one in heard] == [(asked, asked)] * 2
    assert heard[1]["use_safetensors"] is True


def test_a_model_without_its_prediction_head_is_refused(tmp_path: Path) -> None:
    """Its head would be random, and so would all numbers."""
    folder = make(tmp_path / "bert", "bert")
    weights = load_file(folder / "model.safetensors")
    kept = {
        name: value for name, value in weights.items() if not name.startswith("cls.predictions.transform")
    }
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        TraceError, match=r"lacks weights, such as cls\.predictions\.transform.*would be random"
    ):
        load_encoder(str(folder))


def test_weights_that_are_a_pickle_are_not_read(random_model: FolderOf, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(random_model("bert"), tmp_path / "bert"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(TraceError, match="no weights as safetensors"):
        load_encoder(str(folder))


def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path) -> None:
    tokenizer: Any = word_pieces()
    folder = save(tmp_path / "m", untrained("bert", len(tokenizer)), tokenizer)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():
            plain = json.loads((folder / name).read_text())
            plain.pop("mask_token", None)
            (folder / name).write_text(json.dumps(plain))
    with pytest.raises(TraceError, match="has no mask token: it is no masked language model"):
        CausalTracer("m", str(folder))


def test_lands_are_as_long_as_their_replacements() -> None:
    tokenizer = word_pieces()
    assert [len(tokenizer.tokenize(land)) for land in LANDS] == [1, 1, 1, 2, 2]
