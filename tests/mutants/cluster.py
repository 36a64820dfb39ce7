"""Wrong ideas about a Redis Cluster, and about where a call goes in it."""

from __future__ import annotations

from .mutant import Group

TESTS = "tests/stores/cluster"
ENTRANCE = f"{TESTS}/test_entrance.py"
ADDRESSES = f"{TESTS}/test_addresses.py::TestAnnouncedAddresses"
MOVES = f"{TESTS}/test_moves.py::TestMoves"
OUTAGES = f"{TESTS}/test_outages.py::TestOutages"
HEALTH = f"{TESTS}/test_health.py"
URLS = "tests/stores/test_url.py"

cluster = Group("cluster", "celery_semaphore/stores/redis")

FOLLOWING = (
    cluster(
        "MOVED is an outage",
        "the URL names the server, as with any other",
        "errors",
        '"MASTERDOWN", "MOVED", "ASK"',
        '"MASTERDOWN", "ASK"',
        ENTRANCE,
    ),
    cluster(
        "a call during a migration is not repeated",
        "the migration takes longer than a call may",
        "errors",
        '"ASK", "TRYAGAIN", "CLUSTERDOWN")',
        '"CLUSTERDOWN")',
        f"{MOVES}::test_while_the_slot_migrates",
    ),
    cluster(
        "whoever migrates the slot says where it is",
        "another node knows more",
        "cluster",
        "        elif self.nodes and not isinstance(error, (AskError, TryAgainError)):",
        "        elif self.nodes:",
        f"{MOVES}::test_while_the_slot_migrates",
    ),
    cluster(
        "a call follows as often as it is sent on",
        "it arrives in the end",
        "link",
        "MOST_REPEATS = 4 ",
        "MOST_REPEATS = 40 ",
        f"{ADDRESSES}::test_a_node_that_sends_on_to_itself",
    ),
    cluster(
        "connections to the former owner are kept",
        "the server closes them",
        "link",
        "        idle, self._idle = self._idle, []\n",
        "        idle = list(self._idle)\n",
        f"{MOVES}::test_no_connection_to_the_former_owner_is_kept",
    ),
    cluster(
        "a connection that answered is kept",
        "it did answer",
        "link",
        "            if timeout is None and idle is self._idle:\n                idle.append(",
        "            if timeout is None:\n                self._idle.append(",
        f"{MOVES}::test_a_call_that_is_under_way_keeps_no_connection_to_the_former_owner",
    ),
    cluster(
        "what was answered of a batch stands",
        "only the rest was refused, and each call may be missing",
        "runner",
        "    if not lenient or not is_final(said(answer)):\n",
        "    if not said(answer).startswith('MOVED'):\n",
        f"{MOVES}::test_a_batch_that_is_cut_in_half_is_repeated_as_a_whole",
    ),
    cluster(
        "where to go is found out again for each connection",
        "the pool's own arguments are not ours to change",
        "cluster",
        '        self._pool.connection_kwargs = self._pool.connection_kwargs | {"host": host, "port": port}\n',
        "        del host, port\n",
        ENTRANCE,
    ),
)

NODES = (
    cluster(
        "a plain URL leads to one server",
        "redis+cluster:// is for the others",
        "cluster",
        "        if not connection.semaphore_is_node and not self.nodes:\n",
        "        if not self.nodes:\n",
        f"{OUTAGES}::test_a_lost_owner_is_replaced",
    ),
    cluster(
        "every server says redis_mode",
        "Valkey is compatible",
        "connection",
        'info.get("redis_mode") or info.get("server_mode")',
        'info.get("redis_mode")',
        f"{OUTAGES}::test_a_lost_owner_is_replaced",
    ),
    cluster(
        "every server is asked for its nodes",
        "one that is alone has none",
        "cluster",
        "        if not connection.semaphore_is_node and not self.nodes:\n            return\n",
        "",
        f"{ENTRANCE}::TestEntrance::test_a_single_server_is_asked_for_no_nodes",
    ),
    cluster(
        "a node without an address is on this host",
        "where else",
        "cluster",
        "        address = (same if name in",
        '        address = ("127.0.0.1" if name in',
        f"{ADDRESSES}::test_no_host_is_the_same_host",
    ),
    cluster(
        "the address of a MOVED is remapped alone",
        "that is where calls go",
        "cluster",
        "            addresses = [self._address(node[0], node[1], asked[0]) for node in nodes]\n",
        "            addresses = [(node[0].decode(), int(node[1])) for node in nodes]\n",
        f"{ADDRESSES}::test_an_address_that_leads_nowhere_from_here",
    ),
    cluster(
        "an error of address_remap is the user's",
        "it is their function",
        "cluster",
        "        except Exception as error:\n",
        "        except ZeroDivisionError as error:\n",
        f"{ADDRESSES}::test_a_remap_that_fails",
    ),
    cluster(
        "to ask for the nodes has a time of its own",
        "it is no call",
        "cluster",
        "            left = min(QUESTION_TIMEOUT_S, deadline - time.monotonic())\n",
        "            left = QUESTION_TIMEOUT_S\n",
        f"{OUTAGES}::test_a_call_to_nodes_that_all_hang_is_bounded",
    ),
    cluster(
        "nodes that are gone are asked first again and again",
        "they may come back",
        "cluster",
        "                self.nodes = _each_once((*(each for each in self.nodes if each != node), node))\n",
        "",
        f"{OUTAGES}::test_nodes_that_are_gone_do_not_take_the_time_of_each_call",
    ),
    cluster(
        "a node that forgot the others is believed",
        "it says what there is",
        "cluster",
        "            others += [node for node in self.nodes if node != asked]\n",
        "            pass\n",
        f"{OUTAGES}::test_an_owner_that_forgot_the_others",
    ),
    cluster(
        "a node that may not say where to go is of no use",
        "the next one says it",
        "cluster",
        "            self._go(connection.semaphore_serving or node)\n            return\n",
        "            if connection.semaphore_serving:\n"
        "                self._go(connection.semaphore_serving)\n"
        "                return\n",
        f"{OUTAGES}::test_a_user_without_info_and_cluster",
    ),
    cluster(
        "a first node that is away is an outage",
        "the others are for later",
        "__init__",
        "nodes_from_url(url), ",
        "(), ",
        ENTRANCE,
    ),
)

CHECKING = (
    cluster(
        "each server of a list is a node",
        "the operator knows",
        "cluster",
        "            if NO_CLUSTER in str(error) and len(self.nodes) > 1:",
        "            if False:",
        f"{HEALTH}::TestHealth::test_servers_that_are_no_nodes",
    ),
    cluster(
        "slots of others are of no interest",
        "ours is served",
        "health",
        "    if covered == SLOTS:\n",
        "    if True:\n",
        HEALTH,
    ),
    cluster(
        "a database is the server's business",
        "it says whether it has it",
        "health",
        '    if getattr(connection, "db", 0):\n',
        "    if False:\n",
        HEALTH,
    ),
    cluster(
        "the first node has the password",
        "the others are its replicas",
        "url",
        '    if others and {_split(other)[0] for other in others} - {"", _split(first)[0]}:\n',
        "    if False:\n",
        URLS,
    ),
    cluster(
        "a semicolon parts URLs",
        "no password has one",
        "url",
        "_without_password(part) for part in _SEVERAL.split(url))",
        '_without_password(part) for part in url.split(";"))',
        URLS,
    ),
)

MUTANTS = (*FOLLOWING, *NODES, *CHECKING)
