"""What a server of metrics answers, read by Prometheus's own parser."""

from __future__ import annotations

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

PREFIX = "celery_semaphore_"


def text_from(port: int, address: str = "127.0.0.1") -> str:
    with urlopen(f"http://{address}:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


class Scraped:
    """All samples of one answer; names without our prefix."""

    def __init__(self, text: str) -> None:
        self.samples = {
            (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    @classmethod
    def of(cls, port: int) -> Scraped:
        return cls(text_from(port))

    def get(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels, whatever others they have."""
        wanted = frozenset(labels.items())
        return sum(
            value for (each, has), value in self.samples.items() if each == name and wanted <= has
        )

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(has)[label] for each, has in self.samples if each == name}
