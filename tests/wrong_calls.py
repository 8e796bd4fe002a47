"""The wrong calls that `runs/wrong_calls.jsonl` lists, and the intact and damaged files that they name."""

import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests import ROOT

TASK = '''
from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import rasp, tokens

@task({name!r}, vocab={vocab}, length={length}, attention={attention!r})
def build():
    """Whether each letter is a vowel."""
    {body}
'''
VOWEL = 'return rasp.Map(lambda letter: letter in "ae", tokens).named("is_vowel")'


def own_task(name="mine", vocab='"abcde"', length="3", attention="causal", body=VOWEL):
    return TASK.format(name=name, vocab=vocab, length=length, attention=attention, body=body)


CAUSAL = '''
import numpy as np
from interpbench.causal.model import CausalModel, Read, Variable
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.domain import Sequences

LETTERS = tuple("abcde")

def token_before(tokens):
    return np.concatenate([np.full_like(tokens[:, :1], -1), tokens[:, :-1]], axis=1)

def equal(token, before):
    {mechanism}

@causal_task("repeats", vocab=LETTERS, length=4, domain=Sequences(len(LETTERS), 4), alignment={alignment})
def repeats():
    """Whether each letter is the same as the one before it."""
    return CausalModel(
        [
            Variable("tokens", (), lambda tokens: tokens, LETTERS),
            Variable("before", (Read({parent!r}),), token_before, LETTERS, "the token one position earlier"),
            Variable("repeats", (Read("tokens", "mlp"), Read("before", "mlp")), equal, (False, True), "same"),
        ],
        output={output!r},
    )
'''
EQUAL = "return np.where(before >= 0, token == before, -1).astype(np.int16)"
ALIGNED = '{"before": "a0.h1", "repeats": "m0"}'


def own_causal(mechanism=EQUAL, alignment=ALIGNED, parent="tokens", output="repeats"):
    return CAUSAL.format(mechanism=mechanism, alignment=alignment, parent=parent, output=output)


METHOD = """
import numpy as np
from pydantic.dataclasses import dataclass
from interpbench.circuits.scores import Cost, Scores
from interpbench.discovery.method import MethodRecord, method
"""
GOOD_METHOD = '''
@method({name!r})
@dataclass(frozen=True)
class {cls}:
    """Zeros."""

    power: float{default}
    record = MethodRecord(sign="larger", cost="none", granularity="edge")

    def __call__(self, problem):
        {body}
'''
ZEROS = "return Scores(problem.graph, np.where(problem.graph.legal, 0.0, np.nan), cost=Cost())"


def own_method(name="mine", cls="Mine", default=" = 1.0", body=ZEROS):
    return GOOD_METHOD.format(name=name, cls=cls, default=default, body=body)


PYTHON = {
    # tasks
    "t_good.py": own_task(),
    "t_raises.py": "raise RuntimeError('boom')\n",
    "t_lines.py": "raise RuntimeError('boom\\nin two\\nor three lines')\n",
    "t_exit0.py": "import sys\nsys.exit(0)\n",
    "t_exit3.py": "import sys\nsys.exit(3)\n",
    "t_exit_text.py": "import sys\nsys.exit('so long')\n",
    "t_syntax.py": "def (:\n",
    "t_none.py": "x = 1\n",
    "t_two.py": own_task("first") + own_task("second"),
    "t_taken.py": own_task("hist"),
    "t_import.py": "import nosuch_package\n",
    "t_build_raises.py": own_task(body="raise RuntimeError('boom')"),
    "t_build_exit0.py": own_task(body="raise SystemExit(0)"),
    "t_build_none.py": own_task(body="return None"),
    "t_vocab_empty.py": own_task(vocab="()"),
    "t_vocab_mixed.py": own_task(vocab='("a", 1)'),
    "t_length0.py": own_task(length="0"),
    "t_length_text.py": own_task(length="'three'"),
    "t_attention.py": own_task(attention="sideways"),
    "t_constant.py": own_task(body='return rasp.Map(lambda letter: 1, tokens).named("one")'),
    "t_node.py": own_causal(alignment='{"before": "zz", "repeats": "m0"}'),
    "t_node_missing.py": own_causal(alignment='{"repeats": "m0"}'),
    "t_node_late.py": own_causal(alignment='{"before": "a1.h1", "repeats": "m0"}'),
    "t_node_kind.py": own_causal(alignment='{"before": "a0.h1", "repeats": "a1.h0"}'),
    "t_parent.py": own_causal(parent="nosuch"),
    "t_output.py": own_causal(output="nosuch"),
    "t_mechanism_raises.py": own_causal(mechanism="raise RuntimeError('boom')"),
    "t_mechanism_shape.py": own_causal(mechanism="return (token[:, :1] == before[:, :1]).astype(np.int16)"),
    "t_mechanism_code.py": own_causal(mechanism="return np.full_like(token, 77)"),
    "t_name_empty.py": own_task(""),
    "t_name_up.py": own_task("../mine"),
    "t_name_lines.py": own_task("a\nb"),
    # methods
    "m_good.py": METHOD + own_method(),
    "m_raises.py": "raise RuntimeError('boom')\n",
    "m_lines.py": "raise RuntimeError('boom\\nin two\\nor three lines')\n",
    "m_exit0.py": "import sys\nsys.exit(0)\n",
    "m_exit3.py": "import sys\nsys.exit(3)\n",
    "m_syntax.py": "class :\n",
    "m_none.py": METHOD,
    "m_two.py": METHOD + own_method("one", "One") + own_method("two", "Two"),
    "m_taken.py": METHOD + own_method("eap"),
    "m_plain.py": METHOD + '\n@method("plain")\nclass Plain:\n    pass\n',
    "m_function.py": METHOD + '\n@method("function")\ndef function(problem):\n    return None\n',
    "m_no_call.py": METHOD
    + '\n@method("no_call")\n@dataclass(frozen=True)\nclass NoCall:\n    power: float = 1.0\n',
    "m_required.py": METHOD + own_method("required", "Required", default=""),
    "m_name_up.py": METHOD + own_method("../../mine"),
    "m_name_empty.py": METHOD + own_method(""),
    "m_call_exit0.py": METHOD + own_method(body="raise SystemExit(0)"),
}


def prepare(folder: Path) -> None:
    """Makes the folder in which the calls run; the project must be on the import path."""
    from interpbench.checkpoints.blind import write_problem
    from interpbench.checkpoints.load import load_checkpoint
    from tests.made_up_certificates import certificate_of, put_certificate

    folder.mkdir(parents=True)
    (folder / "models").symlink_to(ROOT / "models")
    hist = ROOT / "models" / "hist"

    def put(name: str, data: str | bytes) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def copy(name: str, source: Path = hist, **changes: object) -> Path:
        """Copies a checkpoint, with some entries of its record changed."""
        shutil.copytree(source, folder / name)
        if changes:
            record = json.loads((folder / name / "model.json").read_text())
            put(f"{name}/model.json", json.dumps({**record, **changes}))
        return folder / name

    for name, text in PYTHON.items():
        put(name, text)
    put("t_latin1.py", own_task().replace("vowel.", "vowel, caf\xe9.").encode("latin-1"))
    put("t_binary.py", b"\x00\x01\x02")
    put("t_empty.py", "")

    # things of the wrong kind
    put("file.txt", "no folder\n")
    for name in ("folder", "folder.json", "folder.py", "folder.csv", "folder.png", "folder.html"):
        (folder / name).mkdir()
    put("alone/notes.txt", "a file beside which there is nothing\n")

    # checkpoints
    for name in ("run", "again"):
        put_certificate(copy(name))
    put("bad_weights/x", "")
    shutil.rmtree(folder / "bad_weights")
    weights = (hist / "model.safetensors").read_bytes()
    put(f"{copy('bad_weights').name}/model.safetensors", weights[: len(weights) // 2])
    put(f"{copy('bad_record').name}/model.json", '{"format": 1, "task":')
    put(f"{copy('bad_empty').name}/model.json", "")
    put(f"{copy('bad_list').name}/model.json", "[]")
    put(f"{copy('bad_certificate').name}/certificate.json", '{"certified": true}')
    put(f"{copy('bad_data').name}/data.safetensors", b"\xff" * 100)
    (copy("bad_no_weights") / "model.safetensors").unlink()
    put_certificate(copy("bad_no_data"))
    (folder / "bad_no_data" / "data.safetensors").unlink()
    copy("bad_format", format=99)
    copy("bad_task", task="nosuch_task")
    record = json.loads((hist / "model.json").read_text())
    copy("bad_alignment", alignment={**record["alignment"], "nosuch": "m0"})
    copy("bad_truth", truth={})
    old = {"enumerated": False, "certified": True, "accuracy": {}, "iia": {}}
    put(f"{copy('old').name}/certificate.json", json.dumps(old))
    put_certificate(copy("uncertified"), wrong={"edges": {"first": 30}})
    for name, key in (("foreign", "weights"), ("other_task", "task")):
        said = certificate_of(copy(name))
        said["identity"][key] = "0" * 64
        put(f"{name}/certificate.json", json.dumps(said))
    put("bad_published/ll_model.pth", b"not a zip file")
    put("bad_published/ll_model_cfg.pkl", pickle.dumps({"n_layers": 1}))
    copy("indexed/hist")
    put("indexed/index.json", "{}")

    # scores
    loaded = load_checkpoint(hist)
    names = [str(edge) for edge in loaded.record.shape.graph.edges]
    whole = {name: {"score": float(number)} for number, name in enumerate(names)}
    put("good.json", json.dumps({"edges": whole}))
    put("a b!.json", json.dumps({"edges": whole}))
    put("acdc.json", json.dumps({"edges": whole}))
    put("good.csv", "edge,score\n" + "".join(f"{name},{number}\n" for number, name in enumerate(names)))
    put("answer_other.json", json.dumps({"problem": "abc", "edges": whole}))
    put("partial.json", json.dumps({"edges": {names[0]: {"score": 1.0}}}))
    put("twice.csv", f"edge,score\n{names[0]},1\n{names[0]},2\n")
    put("foreign.json", json.dumps({"edges": {"a9.h9->logits": {"score": 1.0}}}))
    put("layers.json", json.dumps({"cfg": {"n_layers": 7}, "edges": whole}))
    put("nan.json", json.dumps({"edges": {**whole, names[0]: {"score": float("nan")}}}))
    put("text.json", json.dumps({"edges": {**whole, names[0]: {"score": "high"}}}))
    put("newline.json", json.dumps({"edges": {"a0.h0\n->\x1b[31mm0": 1.0}}))
    put("empty.json", "")
    put("empty.csv", "")
    put("broken.json", '{"edges": {')
    put("deep.json", "[" * 100_000)
    put("number.json", "3")
    put("nothing.json", "{}")
    put("list.json", "[]")
    put("list_of_text.json", '["a", "b"]')
    put("binary.json", bytes(range(256)))
    put("columns.csv", "edge,score\na,b,c,d,e\n")
    put("scores.pkl", pickle.dumps({"edges": whole}))
    put("scores.pt", pickle.dumps({"edges": whole}))

    # blind problems
    write_problem(hist, folder / "problem")
    shutil.copytree(folder / "problem", folder / "problem_changed")
    shutil.copy(folder / "problem.key.json", folder / "problem_changed.key.json")
    put("problem_changed/model.safetensors", weights[:-8] + b"\0" * 8)
    shutil.copytree(folder / "problem", folder / "problem_cut")
    (folder / "problem_cut" / "data.safetensors").unlink()
    shutil.copytree(folder / "problem", folder / "problem_broken")
    put("problem_broken/problem.json", "{")
    key = json.loads((folder / "problem.key.json").read_text())
    put("other.key.json", json.dumps({**key, "salt": "00" * 32}))

    # evaluations and boards
    put("records/broken/random.json", "{")
    put(
        "damaged_records/hist/random.json",
        json.dumps({"method": 1, "checkpoint": 2, "levels": 3, "edges": 4}),
    )
    put("no_records/notes.json", '{"a": 1}')
    put("board_broken/leaderboard.json", "{")
    put("board_format/leaderboard.json", '{"format": 9}')
    put("board_no_rows/leaderboard.json", '{"format": 1}')
    put("board_number/leaderboard.json", '{"format": 1, "rows": 5, "missing": []}')
    put("board_rows/leaderboard.json", '{"format": 1, "rows": [{}], "missing": []}')
    put("board_text/leaderboard.json", '{"format": 1, "rows": ["a"], "missing": []}')
    (folder / "board_folder" / "leaderboard.json").mkdir(parents=True)

    # a good folder of evaluations, and one of a network that is not here
    from interpbench.runs.score import score_file

    score_file(folder / "good.json", str(hist), pictures=False, out=str(folder / "evaluations"))
    said = json.loads((folder / "evaluations/hist/good.json").read_text())
    put("foreign_records/hist/good.json", json.dumps({**said, "checkpoint": "0" * 64}))

    # tokenizers
    (folder / "tok_empty").mkdir()
    put("tok_broken/tokenizer.json", "{")
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = Tokenizer(models.BPE({chr(i): i - 32 for i in range(32, 127)}, []))
    letters.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    (folder / "tok_letters").mkdir()
    letters.save(str(folder / "tok_letters" / "tokenizer.json"))


# The calls.

CODE = """
import sys
from interpbench.runs import cli
program, sys.argv = sys.argv[1], [sys.argv[1], *sys.argv[2:]]
try:
    {"train": cli.train, "evaluate": cli.evaluate, "interpbench": cli.main}[program]()
finally:
    if "torch" in sys.modules:
        sys.stderr.write("torch is imported\\n")
"""
"""The code that runs a program and prints at the end whether torch was imported."""


class Call(NamedTuple):
    program: str
    arguments: list[str]
    says: list[str]
    environment: dict[str, str]
    torch: bool


def calls() -> list[Call]:
    lines = (ROOT / "tests" / "runs" / "wrong_calls.jsonl").read_text().splitlines()
    return [Call(*json.loads(line)) for line in lines]


def command(call: Call) -> dict[str, Any]:
    """Returns the arguments of `subprocess.run`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **call.environment}
    return {"args": [sys.executable, "-c", CODE, call.program, *call.arguments], "env": environment}
