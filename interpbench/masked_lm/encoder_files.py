"""Loads masked language models and their tokenizers from the Hugging Face hub, its cache, or a folder."""

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interpbench.core.errors import TraceError
from interpbench.core.text import shown

_HUB = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?")


def load_tokenizer(
    huggingface_id: str, trust_remote_code: bool = False, local_files_only: bool = False
) -> Any:
    """Returns a model's tokenizer.

    Args:
        huggingface_id: the model's address on the hub, `owner/name`, or a folder.
        trust_remote_code: whether code that comes with the model may be executed.
        local_files_only: whether the network must not be used; so it is with `HF_HUB_OFFLINE=1`, too.

    Raises:
        TraceError: if it cannot be loaded, or has no mask token or no offsets.
    """
    from transformers import AutoTokenizer

    options = _options(huggingface_id, trust_remote_code, local_files_only)
    with _explained(huggingface_id, "tokenizer"):
        tokenizer: Any = AutoTokenizer.from_pretrained(huggingface_id, **options)
    if tokenizer.mask_token is None:
        raise TraceError(f"{shown(huggingface_id)} has no mask token: it is no masked language model")
    if not tokenizer.is_fast:
        raise TraceError(
            f"{shown(huggingface_id)} has no fast tokenizer, which says where a word's tokens are"
        )
    return tokenizer


def load_encoder(huggingface_id: str, trust_remote_code: bool = False, local_files_only: bool = False) -> Any:
    """Returns a masked language model, in 32 bits, for inference.

    Its attention is computed step by step (`eager`), which all families can.

    Args:
        huggingface_id: the model's address on the hub, `owner/name`, or a folder.
        trust_remote_code: whether code that comes with the model may be executed.
        local_files_only: whether the network must not be used; so it is with `HF_HUB_OFFLINE=1`, too.

    Raises:
        TraceError: if it cannot be loaded, or its files lack weights, such as those of its last layer.
    """
    import torch
    from transformers import AutoModelForMaskedLM

    options = _options(huggingface_id, trust_remote_code, local_files_only)
    with _explained(huggingface_id, "model"):
        model, report = AutoModelForMaskedLM.from_pretrained(
            huggingface_id,
            dtype=torch.float32,
            attn_implementation="eager",
            use_safetensors=True,  # anything else is a pickle
            output_loading_info=True,
            **options,
        )
    if missing := sorted(report["missing_keys"]):
        raise TraceError(
            f"{shown(huggingface_id)} lacks weights, such as {shown(missing[0])}, which would be random; it "
            "is no masked language model"
        )
    return model.eval().requires_grad_(False)


def _options(huggingface_id: str, trust_remote_code: bool, local_files_only: bool) -> dict[str, Any]:
    """Returns how to load; refuses what is no folder and cannot be an address."""
    there = bool(huggingface_id) and Path(huggingface_id).is_dir()
    if not there and not _HUB.fullmatch(huggingface_id):
        raise TraceError(f"{shown(huggingface_id)} is no folder, and no address on the hub, owner/name")
    return {"trust_remote_code": trust_remote_code, "local_files_only": local_files_only or there}


@contextmanager
def _explained(huggingface_id: str, what: str) -> Generator[None]:
    """Returns a context in which whatever prevents loading is said in one line, with what to do.

    `transformers` meanwhile says nothing by itself but errors, and shows no bars.
    """
    from transformers.utils import logging as said_by

    logger, bars = logging.getLogger("transformers"), said_by.is_progress_bar_enabled()
    level = logger.level
    logger.setLevel(logging.ERROR)
    said_by.disable_progress_bar()
    try:
        yield
    except Exception as error:
        said = shown(" ".join(str(error).split()) or type(error).__name__)
        raise TraceError(
            f"cannot load the {what} {shown(huggingface_id)}: {_remedy(error)} ({said})"
        ) from error
    finally:
        logger.setLevel(level)
        if bars:
            said_by.enable_progress_bar()


def _remedy(error: Exception) -> str:
    """Returns what to do about an error."""
    said = str(error)
    if "trust_remote_code" in said:
        return "it comes with code of its own; read it, and allow it with trust_remote_code"
    if isinstance(error, ImportError) or re.search(r"sentencepiece|tiktoken|protobuf|pip install", said):
        return "install the package that its tokenizer needs"
    if re.search(r"safetensors", said):
        return "it has no weights as safetensors, and others are not read"
    if isinstance(error, OSError):
        return "is the address right, and is it in the cache, or the hub within reach?"
    return "this version of transformers does not read it"
