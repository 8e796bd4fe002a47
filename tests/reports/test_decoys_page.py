"""The page of decoys computes in a browser what Python does, and its ranking follows the controls."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interpbench.decoys.decoy_circuits import ORDER, decoy_circuit
from interpbench.decoys.decoy_scores import ranking_auroc
from interpbench.decoys.dissociation import stated
from interpbench.decoys.expectations import EXPECTED, expected_scores
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS
from interpbench.reports.decoys_page import decoys_page
from tests.browser import Browser, chromium, executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no Chromium is installed: apt-get install chromium"
)
DONE = "#table[data-done]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = tmp_path_factory.mktemp("page") / "decoys.html"
    path.write_text(decoys_page())
    with chromium() as opened:
        opened.open(path)
        opened.page.wait_for_selector(DONE)
        yield opened
        assert opened.complaints == [] and opened.requests == [path.resolve().as_uri()]


class Permutations:
    """A generator that gives the permutations of the page."""

    def __init__(self, orders: list[list[int]]):
        self.orders = iter(orders)

    def permutation(self, count: int) -> np.ndarray:
        return np.array(next(self.orders))


def move(browser: Browser, **values: float | str) -> None:
    """Moves controls as a user does."""
    for name, value in values.items():
        if isinstance(value, str):
            browser.page.locator(f"input[name={name}][value={value}]").check(force=True)
        else:
            browser.page.locator(f"#{name}").fill(str(value))


def ranking(browser: Browser) -> list[str]:
    """Returns the features in the order of their places on the page."""
    rows = "[...document.querySelectorAll('.row')].sort((a, b) => a.dataset.place - b.dataset.place)"
    return browser.run(f"{rows}.map(row => row.querySelector('b').textContent)")


def text(browser: Browser, place: str) -> str:
    return browser.page.locator(f"#{place}").inner_text()


@pytest.mark.parametrize("strength", [1, 0.62, 0.02])
@pytest.mark.parametrize("name", ORDER)
def test_expected_scores_are_those_of_python(browser: Browser, name: str, strength: float) -> None:
    for method in EXPECTED:
        found = browser.run(f"expected('{name}', '{method}', {strength})")
        wanted = expected_scores(decoy_circuit(name, strength), method)
        np.testing.assert_allclose(found, wanted, atol=1e-9, err_msg=method)


@pytest.mark.parametrize(("samples", "seed", "strength"), [(512, 0, 1), (16, 5, 0.7), (100, 63, 0.3)])
@pytest.mark.parametrize("name", ORDER)
def test_scores_of_a_sample_are_those_of_python(
    browser: Browser, name: str, samples: int, seed: int, strength: float
) -> None:
    circuit = decoy_circuit(name, strength)
    rows = browser.run(f"inputs('{name}', {strength}, {samples}, {seed}).map(row => [...row])")
    given = np.array(rows)
    assert given.shape == (samples, 12) and (circuit.on_data(given) == given).all()
    for method in METHODS[1:]:
        orders = browser.run(f"permutations({seed}, {samples})")
        found = browser.run(f"scores('{name}', '{method}', {strength}, {samples}, {seed})")
        wanted = ATTRIBUTIONS[method].scores(circuit.network, given, Permutations(orders))  # type: ignore[arg-type]
        np.testing.assert_allclose(found, wanted, atol=1e-9, err_msg=method)
        causal = list(circuit.causal)
        assert browser.run(f"auroc({list(map(float, wanted))}, {causal})") == pytest.approx(
            ranking_auroc(wanted, circuit.labels)
        )


def test_inputs_of_the_page_have_the_law_of_those_of_python(browser: Browser) -> None:
    rows = np.array(browser.run("inputs('clean', 1, 4000, 3).map(row => [...row])"))
    np.testing.assert_allclose(rows.mean(0), 0, atol=0.06)
    np.testing.assert_allclose(np.cov(rows.T), np.eye(12), atol=0.08)
    assert np.mean(np.abs(rows) > 1.96) == pytest.approx(0.05, abs=0.008)
    confounded = np.array(browser.run("inputs('confounded', 1, 4000, 3).map(row => [...row])"))
    outputs = decoy_circuit("confounded").network.outputs(confounded)
    for feature, r in decoy_circuit("confounded").correlated.items():
        assert np.corrcoef(confounded[:, feature], outputs)[0, 1] == pytest.approx(r, abs=0.01)
    again = browser.run("draw(circuitAt('clean', 1), 50, 3).map(row => [...row])")
    assert again == browser.run("draw(circuitAt('clean', 1), 50, 3).map(row => [...row])")
    assert again != browser.run("draw(circuitAt('clean', 1), 50, 4).map(row => [...row])")


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("method", METHODS)
def test_the_ranking_is_in_the_order_of_the_scores(browser: Browser, name: str, method: str) -> None:
    move(browser, circuit=name, method=method, strength=1, samples=9, seed=2)
    found: list[Any] = browser.run(f"scores('{name}', '{method}', 1, 512, 2)")
    wanted = sorted(range(12), key=lambda feature: (-found[feature], feature))
    assert ranking(browser) == [f"f{feature}" for feature in wanted]
    labels = decoy_circuit(name).labels
    assert text(browser, "auroc") == f"{ranking_auroc(np.array(found), labels):.4f}"
    causal = browser.run("[...document.querySelectorAll('.row.causal b')].map(name => name.textContent)")
    assert sorted(causal) == sorted(f"f{feature}" for feature in decoy_circuit(name).causal)
    expected = "0.5" if method == "random" else f"{auroc_in_the_limit(method, name):.4f}"
    assert text(browser, "auroc-expected") == expected


def auroc_in_the_limit(method: str, name: str) -> float:
    """Returns an AUROC in which scores that vanish in the limit are ties."""
    scores = np.round(expected_scores(decoy_circuit(name), method), 9)
    return ranking_auroc(scores, decoy_circuit(name).labels)


def test_decoys_that_get_weaker_fall_below_causal_features(browser: Browser) -> None:
    move(browser, circuit="confounded", method="correlation", strength=1, samples=11, seed=0)
    assert ranking(browser)[:2] == ["f7", "f6"] and text(browser, "auroc") == "0.7500"
    move(browser, strength=0.5)
    assert ranking(browser)[0] == "f1" and 0.75 < float(text(browser, "auroc")) < 1
    move(browser, strength=0.2)
    assert set(ranking(browser)[:4]) == {"f0", "f1", "f2", "f3"} and text(browser, "auroc") == "1.0000"
    assert text(browser, "verdict") == "All causal features come first."
    assert text(browser, "strength-said") == "0.20" and text(browser, "samples-said") == "2048"


def test_seed_and_samples_move_the_scores_of_the_sample_and_not_the_limit(browser: Browser) -> None:
    move(browser, circuit="suppressor", method="gradient", strength=1, samples=5, seed=1)
    bar, tick = (f"document.querySelector('.row:nth-child(7) {part}').textContent" for part in ("code", "u"))
    first, limit = browser.run(bar), browser.run("expected('suppressor', 'gradient', 1)[6]")
    move(browser, seed=2)
    second = browser.run(bar)
    move(browser, samples=11)
    third = browser.run(bar)
    assert len({first, second, third}) == 3 and browser.run(tick) == ""
    assert browser.run("expected('suppressor', 'gradient', 1)[6]") == limit
    assert abs(float(third) - limit) < max(abs(float(first) - limit), abs(float(second) - limit))


def test_the_table_has_every_cell_and_chooses_what_is_clicked(browser: Browser) -> None:
    move(browser, circuit="clean", method="random", strength=1, samples=9, seed=0)
    browser.page.wait_for_selector(DONE)
    cells = browser.run(
        "[...document.querySelectorAll('#table tr')].slice(1).map(r => [...r.querySelectorAll('td')]"
        ".map(c => [c.textContent, c.classList.contains('fooled')]))"
    )
    for method, row in zip(METHODS[1:], cells[1:]):
        wanted = [f"{stated(method, name):.3f}" for name in ORDER]
        assert [cell[0] for cell in row] == wanted
        assert [cell[1] for cell in row] == [value != "1.000" for value in wanted]
    browser.page.get_by_role("button", name="patching on off_manifold").click()
    assert text(browser, "auroc") == "0.7500" and ranking(browser)[:2] in (["f6", "f7"], ["f7", "f6"])
    assert browser.run("chosen('circuit') + chosen('method')") == "off_manifoldpatching"


def test_the_page_fits_a_small_screen_and_works_from_the_keyboard(browser: Browser) -> None:
    size = browser.page.viewport_size
    browser.page.set_viewport_size({"width": 390, "height": 800})
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.page.locator("input[name=circuit][value=clean]").focus()
    browser.page.keyboard.press("ArrowRight")
    assert browser.run("chosen('circuit')") == "confounded"
    assert size is not None
    browser.page.set_viewport_size(size)


def test_the_page_is_one_file_without_addresses(tmp_path: Path) -> None:
    page = decoys_page()
    assert "default-src 'none'" in page and "/*" + "STYLE" not in page and "/*DATA" not in page
    assert not any(
        part in page.replace("http://www.w3.org/2000/svg", "") for part in ("http:", "https:", "url(")
    )
