"""How commands start and end: configuration composed by Hydra, one line for anything a user can fix."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from interpbench.core.errors import InterpBenchError, did_you_mean

log = logging.getLogger(__name__)


def config_folder() -> str:
    """Returns the folder of the YAML files: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "configs"
    return str(beside if beside.is_dir() else package / "configs")


def configure_logging() -> None:
    """Sends the library's log lines to standard error, plainly."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("interpbench").setLevel(logging.INFO)


Config = Mapping[str, Any]


def run_hydra(
    name: str, job: Callable[[Config], bool], experiment: Callable[[Config], str | None] = lambda _: None
) -> None:
    """Composes `configs/<name>.yaml` with the command line, runs `job`, and exits.

    Where the command line says nothing of `experiment=`, the file that `experiment` names is composed too,
    before the other overrides.

    The exit status is 0 if every job returns True, 1 if one returns False, 2 for an error that the user can
    fix, which is printed in one line. In a sweep the others still run and failures are listed at the end.
    """
    import hydra
    from hydra import compose
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    configure_logging()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    outcomes: list[tuple[str, int]] = []

    def main(config: Any) -> None:
        overrides = list(HydraConfig.get().overrides.task)
        label = " ".join(overrides)

        def plain(config: Any) -> Any:
            return OmegaConf.to_container(config, resolve=True, throw_on_missing=False)

        try:
            data = plain(config)
            said = any(override.lstrip("+~").startswith("experiment") for override in overrides)
            own = None if said else experiment(data)
            if own is not None:
                log.info("with configs/experiment/%s.yaml; experiment=none goes without", own)
                data = plain(compose(name, [f"experiment={own}", *overrides]))
            outcomes.append((label, 0 if job(data) else 1))
        except InterpBenchError as error:
            outcomes.append((label, complain(str(error))))

    try:
        hydra.main(config_path=config_folder(), config_name=name, version_base="1.3")(main)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        sys.exit(complain(explain(name, str(error))))
    except KeyboardInterrupt:
        sys.exit(complain("interrupted; the same command goes on where it was", 130))
    failed = [label for label, status in outcomes if status]
    if failed and len(outcomes) > 1:
        log.error("%d of %d runs failed: %s", len(failed), len(outcomes), "; ".join(failed))
    sys.exit(max((status for _, status in outcomes), default=0))


def complain(message: str, status: int = 2) -> int:
    """Writes one error line and returns the exit status."""
    sys.stderr.write(f"error: {message}\n")
    return status


def explain(name: str, message: str) -> str:
    """Turns Hydra's message into one line that names the nearest valid key or choice."""
    key = re.search(r"Could not override '([^']+)'", message)
    if key:
        return f"unknown key {key[1]!r}{did_you_mean(key[1], _keys(name))}"
    group = re.search(r"Could not find '([^']+)/([^'/]+)'", message)
    if group:
        choices = [path.stem for path in (Path(config_folder()) / group[1]).glob("*.yaml")]
        return f"unknown {group[1]} {group[2]!r}{did_you_mean(group[2], choices)}"
    return " ".join(message.split())


def _keys(name: str) -> list[str]:
    """Returns every key of a command's configuration, with its path."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(config_folder(), version_base="1.3"):
        data: Any = OmegaConf.to_container(compose(name), resolve=False)

    def walk(node: Any, path: str) -> Iterator[str]:
        for key, value in node.items():
            yield f"{path}{key}"
            if isinstance(value, dict):
                yield from walk(value, f"{path}{key}.")

    return list(walk(data, ""))
