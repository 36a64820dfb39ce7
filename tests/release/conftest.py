"""The wheel of this checkout, and an environment with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.counter import CounterServer
from tests.support.process import ROOT
from tests.support.servers import ValkeyServer

from .deployment import Deployment
from .environment import Environment, build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"), wheel, "redis")


@pytest.fixture
def deployment(
    tmp_path: Path, valkey: ValkeyServer, counter_server: CounterServer
) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path, valkey.url, counter_server)
    try:
        yield deployment
    finally:
        deployment.close()
