"""They only show that the mutated copy is what runs: otherwise every mutant would seem to survive."""

from __future__ import annotations

from .mutant import Mutant

SONG = "the canary sings"

CANARIES = (
    Mutant(
        "canary/package",
        "the tests import the copy",
        "celery_semaphore/core/permit.py",
        "from __future__ import annotations\n",
        f"from __future__ import annotations\n\nraise RuntimeError({SONG!r})\n",
        ("tests/core/test_lease.py",),
    ),
    Mutant(
        "canary/worker",
        "the workers that the tests start import the copy",
        "celery_semaphore/worker/main_process/bootstep.py",
        "    def start(self, parent: WorkController) -> None:\n",
        f"    def start(self, parent: WorkController) -> None:\n        raise RuntimeError({SONG!r})\n",
        ("tests/worker/test_waiting.py::test_drop_and_fail",),
    ),
)
