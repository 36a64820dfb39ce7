"""Wrong ideas about which stores may keep the messages of waiting tasks."""

from __future__ import annotations

from .mutant import Group

DECIDED = "tests/core/test_parking.py"
SERVER = "tests/stores/test_durability.py"
WATCH = "tests/worker/messages/test_parking_watch.py"

keeping = Group("keeping", "celery_semaphore")

MUTANTS = [
    keeping(
        "the broker's own server keeps as much as the broker, whatever it does",
        "a server that evicts deletes waiting tasks; and memory ends with its process",
        "core/parking",
        "    if safety is Safety.NEVER:\n",
        "    if safety is Safety.NEVER and durability.server != broker.server:\n",
        f"{DECIDED}::test_a_store_keeps_messages_if_it_is_as_safe_as_the_broker",
    ),
    keeping(
        "two servers that do not say which they are are one",
        "both are unknown",
        "core/parking",
        "    if durability.server and durability.server == broker.server:\n",
        "    if durability.server == broker.server:\n",
        f"{DECIDED}::test_a_store_keeps_messages_if_it_is_as_safe_as_the_broker",
    ),
    keeping(
        "an AOF keeps as much as a quorum queue",
        "both write to a disk; but Redis answers a second before that",
        "core/parking",
        "    if safety is Safety.LOGGED and not broker.quorum:\n",
        "    if safety is Safety.LOGGED:\n",
        f"{WATCH}::test_a_quorum_queue_is_safer_than_an_aof",
    ),
    keeping(
        "a store that has room again takes messages at once",
        "it is full again with the next message, and workers say so each minute",
        "core/parking",
        "        part = self.resume if lacking else 1.0\n",
        "        part = 1.0\n",
        f"{DECIDED}::test_a_store_is_not_filled_up",
    ),
    keeping(
        "a replica is the server that it follows",
        "it has its data, but not its run; and it takes no writes",
        "core/durability",
        'if run_id and role == "master"',
        "if run_id",
        f"{SERVER}::test_a_replica_is_no_server",
    ),
    keeping(
        "an AOF that is switched on is written",
        "Redis would stop otherwise; but with appendfsync everysec it goes on",
        "stores/redis/durability",
        '    if info.get("aof_last_write_status") != "ok":\n',
        "    if False:\n",
        f"{SERVER}::test_an_aof_that_cannot_be_written",
    ),
    keeping(
        "a server behind sentinels is the broker's own",
        "it is today",
        "stores/redis/durability",
        '        server="" if moves else server_of(',
        "        server=server_of(",
        f"{WATCH}::test_a_broker_behind_sentinels",
    ),
    keeping(
        "a broker behind sentinels is one server",
        "the store is the primary today",
        "worker/messages/broker",
        "        if connection.transport_cls == SENTINEL or len(connection.alt) > 1:\n",
        "        if len(connection.alt) > 1:\n",
        f"{WATCH}::test_a_broker_behind_sentinels",
    ),
    keeping(
        "the first of several brokers is the broker",
        "the store is the first, too",
        "worker/messages/broker",
        "        if connection.transport_cls == SENTINEL or len(connection.alt) > 1:\n",
        "        if connection.transport_cls == SENTINEL:\n",
        f"{WATCH}::test_several_brokers",
    ),
    keeping(
        "a server that evicts was refused at the start",
        "its policy can change",
        "stores/redis/durability",
        "    if policy is not None and evicts(policy):\n",
        "    if False:\n",
        f"{WATCH}::test_a_store_that_evicts_is_left",
    ),
    keeping(
        "a PostgreSQL server commits",
        "the role may have synchronous_commit off",
        "stores/postgresql/durability",
        '    waits = commit not in {None, "off"}\n',
        "    waits = True\n",
        "tests/stores/postgresql/test_durability.py",
    ),
    keeping(
        "what a worker found at its start holds",
        "CONFIG SET appendonly no changes it",
        "worker/messages/parking_watch",
        "        due = not self._sure or time.monotonic() - self._looked_at >= LOOK_S\n",
        "        due = not self._sure\n",
        f"{WATCH}::test_it_looks_once_a_minute",
    ),
    keeping(
        "a store without an answer is asked again in a minute",
        "it is like any other look",
        "worker/messages/parking_watch",
        "        due = not self._sure or time.monotonic() - self._looked_at >= LOOK_S\n",
        "        due = time.monotonic() - self._looked_at >= LOOK_S\n",
        f"{WATCH}::test_no_broker_at_the_start",
    ),
    keeping(
        "a broker that is away is asked with each sweep",
        "it may be back; but each question lasts for seconds, and no overdue grant is found meanwhile",
        "worker/messages/parking_watch",
        "            self._look(asks=self._connected())\n",
        "            self._look(asks=True)\n",
        f"{WATCH}::test_a_broker_without_a_connection_is_not_asked",
    ),
    keeping(
        "another server keeps as much as the one before",
        "the replica has the same configuration",
        "worker/messages/parking_watch",
        "        return due or self._store().epoch != self._epoch\n",
        "        return due\n",
        f"{WATCH}::test_it_looks_when_another_server_answers",
    ),
    keeping(
        "what says park needs no room",
        "it says so itself; but then the server is full",
        "core/parking",
        "        return wanted and not self.shortage\n",
        "        return wanted and (on_saturated is OnSaturated.PARK or not self.shortage)\n",
        f"{WATCH}::test_a_server_that_is_nearly_full",
    ),
    keeping(
        "a full store is tried with each task",
        "each gets an error, and is published again",
        "worker/messages/parking_watch",
        "        if isinstance(error, StoreFull):\n",
        "        if False:\n",
        f"{WATCH}::test_a_full_store_takes_no_more_until_the_next_look",
    ),
    keeping(
        "each task that is not parked is a warning",
        "there are a hundred thousand of them",
        "worker/messages/hourly_warnings",
        "        if now - self._warned.get(reason, -SILENCE_S) < SILENCE_S:\n",
        "        if False:\n",
        f"{WATCH}::test_each_reason_is_a_warning_an_hour",
    ),
    keeping(
        "an attempt without a decision is parked",
        "it says wait; but the worker of an older release decides nothing, and has its message",
        "core/wait_policy",
        "            parks = self.on_saturated is OnSaturated.PARK\n",
        "            parks = True\n",
        f"{DECIDED}::test_an_attempt_waits_as_its_worker_decided",
    ),
]
