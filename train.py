"""Trains a transformer to have a known circuit: `python train.py task=frac_prevs`."""

from interpbench.runs.entry import run_hydra


def main() -> None:
    """Composes `configs/train.yaml` and runs it."""

    def job(config: object) -> bool:
        from interpbench.runs.train import run

        return run(config)  # type: ignore[arg-type]

    run_hydra("train", job)


if __name__ == "__main__":
    main()
