"""RabbitMQ, as a node of its own that needs no rights and shares nothing with the system's."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self
from uuid import uuid4

from .process import Process, free_port, listening, wait_until

# RabbitMQ may try to route a delayed message before it has loaded its bindings, and tries again after so many
# milliseconds. The default is three minutes; see docs/explanation/brokers.md.
ROUTE_AGAIN = "-rabbit dead_letter_worker_publisher_confirm_timeout 10000"
ON_LOOPBACK = "-kernel inet_dist_use_interface {127,0,0,1}"
# Its schedulers sleep as soon as they have no work: to look for some takes a hundredth of a processor all the time.
NO_BUSY_WAIT = "+sbwt none +sbwtdcpu none +sbwtdio none"
AT_ONCE = 8  # virtual hosts: one call makes them all in the time that one takes


def program(name: str) -> Path | None:
    # Debian's wrapper in PATH runs as the system's user and ignores our environment.
    real = Path("/usr/lib/rabbitmq/bin") / name
    if real.exists():
        return real
    found = shutil.which(name)
    return Path(found) if found else None


@dataclass(frozen=True)
class Node:
    """Where a node is."""

    directory: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="rabbit-"))
    port: int = field(default_factory=free_port)
    epmd_port: int = field(default_factory=free_port)
    dist_port: int = field(default_factory=free_port)

    @property
    def environment(self) -> dict[str, str]:
        d = Path(self.directory)
        return {
            "HOME": str(d),  # the node's secret cookie lies there
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_CONFIG_FILE": str(d / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(d / "none"),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(d / "enabled_plugins"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(d / "log"),
            "RABBITMQ_MNESIA_BASE": str(d / "mnesia"),
            "RABBITMQ_NODENAME": f"test-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(d / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{ON_LOOPBACK} {ROUTE_AGAIN} {NO_BUSY_WAIT}",
        }


class Rabbit:
    """A node that runs, whoever started it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._spare: list[str] = []

    @classmethod
    def at(cls, address: str) -> "Rabbit":
        return Rabbit(Node(**json.loads(address)))

    @property
    def address(self) -> str:
        """For `at()`, in another process."""
        return json.dumps(asdict(self.node))

    @property
    def port(self) -> int:
        return self.node.port

    @property
    def url(self) -> str:
        return self._url("/")

    def _url(self, host: str) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{host}"

    def control(self, *arguments: str) -> str:
        """Call rabbitmqctl, and return what it prints; each starts an Erlang of its own, which takes half a second."""
        path, env = program("rabbitmqctl"), self.node.environment
        assert path
        with Process("rabbitmqctl", [path, "-q", *arguments], env=env) as call:
            code = call.wait(30)
            if code:
                raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {code}\n{call.log_tail()}")
            return call.log()

    def evaluate(self, expression: str) -> str:
        """Return what the node makes of an expression of Erlang, as `rabbitmqctl eval` does, in milliseconds."""
        call = shutil.which("erl_call")
        if not call:
            return self.control("eval", expression)
        cookie = Path(self.node.directory, ".erlang.cookie").read_text("utf-8")
        node = self.node.environment["RABBITMQ_NODENAME"]
        mine = f"c{uuid4().hex}"  # two calls of one name at a time would refuse each other
        done = subprocess.run(
            [call, "-c", cookie, "-n", node, "-h", mine, "-e"],
            env=os.environ | self.node.environment,
            input=f"{expression}\n",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if done.returncode:
            return self.control("eval", expression)
        if not done.stdout.startswith("{ok, "):
            raise RuntimeError(f"{expression}: {done.stdout}")
        return done.stdout.removeprefix("{ok, ").removesuffix("}")

    def messages(self, url: str) -> dict[str, int]:
        """Return how many messages each queue of a virtual host has, with those that are not acknowledged."""
        host = url.rpartition("/")[2]
        told = self.evaluate(MESSAGES % host)
        return {name: int(count) for name, count in re.findall(r'{"([^"]+)",\s*(\d+)}', told)}

    def virtual_host(self) -> str:
        """The URL of an empty broker within the broker."""
        if not self._spare:
            self._spare = [uuid4().hex for _ in range(AT_ONCE)]
            names = ",".join(f'<<"{name}">>' for name in self._spare)
            self.evaluate(f"lists:foreach({ADD}, [{names}]).")
        return self._url(self._spare.pop())


# As `rabbitmqctl add_vhost` and `set_permissions` do it.
ADD = """
fun(Host) ->
    ok = rabbit_vhost:add(Host, <<"guest">>),
    All = <<".*">>,
    ok = rabbit_auth_backend_internal:set_permissions(<<"guest">>, Host, All, All, All, <<"guest">>)
end
"""


# As `rabbitmqctl list_queues name messages` asks for them.
MESSAGES = """
[{binary_to_list(element(4, proplists:get_value(name, Each))), proplists:get_value(messages, Each)}
 || Each <- rabbit_amqqueue:info_all(<<"%s">>, [name, messages])].
"""


class RabbitServer(Rabbit):
    """A node of the tests' own."""

    def __init__(self) -> None:
        super().__init__(Node())
        self.directory = Path(self.node.directory)
        self.epmd_port = self.node.epmd_port
        self.epmd: Process | None = None
        self.process: Process | None = None

    @classmethod
    def why_missing(cls) -> str | None:
        if program("rabbitmq-server") and shutil.which("epmd"):
            return None
        return "no RabbitMQ: apt-get install rabbitmq-server, or brew install rabbitmq"

    def start(self) -> Self:
        epmd, server = shutil.which("epmd"), program("rabbitmq-server")
        assert epmd, self.why_missing()
        assert server, self.why_missing()
        (self.directory / "enabled_plugins").write_text("[].")
        (self.directory / "rabbitmq.conf").write_text(
            "vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 50MB\n"
        )
        # Started by the node itself, it would be a daemon that outlives the tests.
        self.epmd = Process(
            f"epmd-{self.epmd_port}",
            [epmd, "-address", "127.0.0.1", "-port", str(self.epmd_port)],
        ).start()
        self.process = Process(f"rabbit-{self.port}", [server], env=self.node.environment).start()
        self.process.wait_until(self._started, 60, "its startup")
        return self

    def _started(self) -> bool:
        assert self.process
        return "Server startup complete" in self.process.log()

    def kill(self) -> None:
        """End it with SIGKILL, as a lost machine would; `start()` finds its durable queues."""
        for process in (self.process, self.epmd):
            if process:
                process.discard()
        # Its first thread may be dead, and its last one still closing the port.
        for port in (self.port, self.epmd_port):
            wait_until(lambda port=port: not listening(port), 10, "the end of RabbitMQ")  # type: ignore[misc]

    def stop_politely(self) -> None:
        """End it with SIGTERM: it writes what it has to keep, and `start()` finds it."""
        assert self.process
        self.process.signal(signal.SIGTERM)
        self.process.wait(30)
        self.kill()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
