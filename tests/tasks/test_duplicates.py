"""Tasks that are the same program up to the names of tokens and values are known to be."""

from interpbench.core import seeds
from interpbench.tasks.catalogue import catalogue, get_task


def test_tasks_that_differ_in_names_alone_say_so() -> None:
    """They train to the same network, so that they are one program in comparisons and in fits."""
    same: dict[bytes, set[str]] = {}
    for task in catalogue().values():
        tokens = task.domain.draw(seeds.generator(0, "same"), 64)
        values = task.causal_model.run(tokens)
        form = [repr((task.attention, len(task.vocab), task.length, task.domain.size)).encode()]
        for name, variable in task.causal_model.variables.items():
            count = None if variable.values is None else len(variable.values)
            form += [repr((count, str(task.default_alignment.get(name)))).encode(), values[name].tobytes()]
        same.setdefault(b"".join(form), set()).add(task.program_name)
    assert [names for names in same.values() if len(names) > 1] == []
    for task in catalogue().values():
        assert task.duplicate_of is None or get_task(task.duplicate_of).duplicate_of is None
