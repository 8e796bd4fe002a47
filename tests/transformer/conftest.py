"""Networks of every shape that the kernel knows."""

import pytest

from interpbench.transformer.model import Transformer
from tests.builders import SHAPES, network, shape_name


@pytest.fixture(params=SHAPES, ids=shape_name)
def model(request: pytest.FixtureRequest) -> Transformer:
    return network(*request.param)
