"""Scores a discovery method on networks with known circuits: `python evaluate.py method=acdc`."""

from interpbench.runs.entry import run_hydra


def main() -> None:
    """Composes `configs/evaluate.yaml` and runs it."""

    def job(config: object) -> bool:
        from interpbench.runs.evaluate import run

        return run(config)  # type: ignore[arg-type]

    run_hydra("evaluate", job)


if __name__ == "__main__":
    main()
