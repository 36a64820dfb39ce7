"""Run the shop with all that it needs: web, worker, beat, and the carrier's API.

python -m example_project.run
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from . import programs, prometheus
from .programs import Failed, free_port, on_stage

PROCESSES = 12
SLOW = 1.5  # seconds that the carrier takes for one call: long enough to be seen
COMPOSE = {
    "broker": "amqp://guest:guest@127.0.0.1:15673//",
    "database": "postgresql://semaphore:semaphore@127.0.0.1:15432/semaphore",
    "store": "redis://127.0.0.1:16379/0",
}
USER, PASSWORD = "admin", "admin"  # of a server that only this machine can reach
SETUP = f"""
from django.contrib.auth.models import User
from example_project.shop.models import Tenant
if not User.objects.filter(username={USER!r}).exists():
    User.objects.create_superuser({USER!r}, password={PASSWORD!r})
for name in ("Anna's antiques", "Bert's boats", "Carla's cakes"):
    Tenant.objects.get_or_create(name=name)
"""


class Stage(programs.Stage):
    given: argparse.Namespace

    def set(self) -> None:
        given = self.given
        self.witness = self.service("--work", str(given.work))
        env = {
            "SHOP_BROKER": given.broker or self.valkey(),
            "SHOP_DATABASE": given.database or f"sqlite://{self.directory}/db.sqlite3",
            "SHOP_STORE": given.store or "",
            "SHOP_CARRIER": self.witness,
        }
        of_worker, of_exporter = free_port(), free_port()
        env["SHOP_METRICS_PORT"] = str(of_worker)
        self.manage("migrate", "--verbosity", "0", **env)
        self.manage("shell", "--command", SETUP, **env)
        worker = self.worker("worker", "example_project.shop", PROCESSES, **env)
        beat = [sys.executable, "-m", "celery", "-A", "example_project.shop", "beat"]
        self.start("beat", [*beat, "--schedule", str(self.directory / "beat")], **env)
        export = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "example_project.shop",
            "semaphore",
            "metrics",
        ]
        export += ["--port", str(of_exporter), "--interval", "5", "--queue", "celery"]
        exporter = self.start("exporter", export, **env)
        self.metrics = f"http://127.0.0.1:{of_exporter}/metrics"
        self.graph = prometheus.start(self, [of_exporter, of_worker])
        port = given.port or free_port()
        self.address = f"http://127.0.0.1:{port}/"
        serve = [sys.executable, "-m", "example_project.manage", "runserver", "--noreload"]
        web = self.start("web", [*serve, str(port)], **env)
        web.wait_until(lambda: web.listens(port))
        exporter.wait_until(lambda: exporter.listens(of_exporter))
        worker.wait_until(lambda: b" ready." in worker.log.read_bytes())

    def manage(self, *words: str, **env: str) -> None:
        command = [sys.executable, "-m", "example_project.manage", *words]
        path = os.pathsep.join(filter(None, [str(programs.HERE), os.environ.get("PYTHONPATH")]))
        given = {**os.environ, **env, "PYTHONPATH": path}
        done = subprocess.run(
            command, cwd=self.directory, env=given, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Failed(f"manage.py {words[0]}:\n{done.stdout}{done.stderr}")


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):  # the latter when its terminal is closed
        signal.signal(number, _interrupt)
    Stage.given = _given()
    try:
        with on_stage(Stage) as made:
            print(f"The shop:        {made.address}")
            print(f"Its semaphores:  {made.address}admin/celery_semaphore/semaphore/")
            print(f"The carrier:     http://{made.witness}/count (what it has seen itself)")
            print(f"Its metrics:     {made.metrics}")
            print(
                f"Prometheus:      {made.graph or 'not installed here: apt-get install prometheus'}"
            )
            print(f"Log in as {USER!r} with the password {PASSWORD!r}. Logs: {made.directory}")
            print("Ctrl-C ends it all.", flush=True)
            return watch(made)
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def watch(made: Stage) -> int:
    """Wait until the user stops the shop, or one of the programs ends."""
    while True:
        for program in made.programs:
            try:
                program.process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            tail = Path(program.log).read_text(errors="replace")[-3000:]
            raise Failed(f"{program.name} has ended:\n{tail}")


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make example ARGS=")
    parser.add_argument("--port", type=int, help="of the web server; default: a free one")
    parser.add_argument("--broker", help="default: an embedded Valkey")
    parser.add_argument("--database", help="postgresql://...; default: SQLite")
    parser.add_argument("--store", help="where permits are kept; default: the broker")
    parser.add_argument("--work", type=float, default=SLOW, help="seconds of one call")
    parser.add_argument("--compose", action="store_true", help="use docker-compose's servers")
    given = parser.parse_args()
    if given.compose:
        parser.set_defaults(**COMPOSE)
        given = parser.parse_args()
    return given


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
