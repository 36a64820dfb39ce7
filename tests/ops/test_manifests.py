"""The manifests of ops/kubernetes name what there is."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import yaml  # type: ignore[import-untyped]

from celery_semaphore.metrics.catalogue import ALL
from celery_semaphore.ops.metrics.command import metrics
from celery_semaphore.ops.metrics.scale import Scale
from tests.support.process import ROOT

FILES = sorted((ROOT / "ops" / "kubernetes").glob("*.yaml"))
DOCS = ROOT / "docs" / "howto" / "autoscaling.md"


def documents(path: Any) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def triggers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = [
        each for path in FILES for each in documents(path) if each.get("kind") == "ScaledObject"
    ]
    return [(each, trigger) for each in found for trigger in each["spec"]["triggers"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_manifest_is_yaml_of_kubernetes_and_in_the_docs(path: Any) -> None:
    for document in documents(path):
        assert "rules" in document or {"apiVersion", "kind", "metadata"} <= set(document)
    assert f"{path.name}\n" in DOCS.read_text("utf-8")


def test_metrics_are_in_the_catalogue() -> None:
    names = {metric.exposed for metric in ALL}
    text = "\n".join(path.read_text("utf-8") for path in FILES)
    found = set(re.findall(r"\bcelery_semaphore_\w+", text))
    assert found
    assert found <= names


def test_the_exporter_understands_its_arguments() -> None:
    (deployment,) = [
        d
        for p in FILES
        for d in documents(p)
        if d.get("kind") == "Deployment" and "exporter" in p.name
    ]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    context = metrics.make_context("metrics", list(container["args"]), resilient_parsing=False)
    assert isinstance(context, click.Context)
    assert context.params["port"] == container["ports"][0]["containerPort"]


def test_keda_asks_for_fields_that_are_answered() -> None:
    fields = {
        trigger["metadata"]["valueLocation"]
        for _, trigger in triggers()
        if trigger["type"] == "metrics-api"
    }
    assert fields == {"runnable", "floor"}
    assert fields <= set(Scale(0, 0, 0).as_dict())
    for _, trigger in triggers():
        if url := trigger["metadata"].get("url"):
            assert urlsplit(url).path == "/scale"


def test_the_formula_names_its_triggers() -> None:
    (scaled,) = [s for s, t in triggers() if t.get("name") == "runnable"]
    formula = scaled["spec"]["advanced"]["scalingModifiers"]["formula"]
    names = {trigger["name"] for of, trigger in triggers() if of == scaled}
    assert set(re.findall(r"[a-z]+", formula)) == names
