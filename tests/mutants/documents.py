"""Wrong ideas about documents that are saved by compare-and-swap, and about SQLite."""

from __future__ import annotations

from .mutant import Group

RULES = ("tests/stores/documents/test_rules.py",)
SQLITE = ("tests/stores/sql/test_sqlite.py",)
documents = Group("documents", "celery_semaphore/stores/documents", tests=RULES)
codec = Group("documents", "celery_semaphore/stores/engine", tests=("tests/stores/documents",))
sql = Group("documents", "celery_semaphore/stores/sql", tests=SQLITE)

MUTANTS = (
    documents(
        "R1: what was read need not be read again",
        "a session that sleeps by now was awake when the first attempt read it",
        "store",
        "return self._kept(transaction, made, LoadedState(transaction, how.due, how.anew))",
        """last = getattr(self, "_last", {})
            transaction._read |= {k: v for k, v in last.items() if k.kind == "s"}
            self._last = transaction._read
            return self._kept(transaction, made, LoadedState(transaction, how.due, how.anew))""",
    ),
    documents(
        "R3: the store's document changes seldom",
        "a pause of another process is not seen",
        "state",
        "self._before = transaction.get(Key(STORE))",
        """global _KEPT
        self._before = _KEPT = globals().get("_KEPT") or transaction.get(Key(STORE))""",
    ),
    documents(
        "R4: a resource that is looked at has changed if it must",
        "an acquire that read the limit of before is kept",
        "store",
        "self._made(partial(_looked_at, name=name), [name], anew=[name])",
        "self._made(partial(_looked_at, name=name), [name])",
    ),
    documents(
        "R4: each resource is written first",
        "whoever comes between reads the limit of before, and nothing tells them",
        "store",
        """self._call(lambda engine: engine.decide_limit(limit, resource))
        return self._written_anew(resource)""",
        """outgoing = self._written_anew(resource)
        self._call(lambda engine: engine.decide_limit(limit, resource))
        return outgoing""",
    ),
    documents(
        "R5: a tombstone is a document as others",
        "a server that cannot write all at once writes the resource first",
        "state",
        "marks |= loaded.tombstones()",
        "changes |= loaded.tombstones()",
    ),
    documents(
        "R5: a message is a document as others",
        "its wait is there, and the message is not",
        "store",
        "loaded.marks |= parked",
        "loaded.late = parked",
        "tests/stores/documents/test_rules.py",
        "-k",
        "parked",
    ),
    documents(
        "R5: a hint is a document as others",
        "a grant is there that no question finds",
        "state",
        "elif hint is None or key.kind != PAYLOAD:",
        "elif key.kind == 'g' and hint:\n            changes[Key('s', item=key.item)] = hint\n        elif hint is None or key.kind != PAYLOAD:",
    ),
    documents(
        "R6: where a release finds nothing it writes a tombstone alone",
        "an acquire that is on its way gets its permit after its release",
        "loaded_resources",
        "if body == self._before and not (anew or self._tombstones.marked):",
        "if body == self._before and not anew:",
    ),
    documents(
        "R7: renewals are one batch",
        "a busy resource costs all others their leases",
        "store",
        "left.setdefault(frozenset(named(permit.claims)), []).append(permit)",
        "left.setdefault(frozenset(), []).append(permit)",
    ),
    documents(
        "a hint of a wait is a mark",
        "two lines get a wait of one ticket",
        "state",
        "if key.kind == WAIT:",
        "if False:",
    ),
    documents(
        "each look is a change",
        "all that is looked at is written, by each client",
        "loaded_resources",
        "if body == self._before and not (anew or self._tombstones.marked):",
        "if False:",
    ),
    documents(
        "a changed wait keeps its hints",
        "what is over is found for ever, and takes room",
        "state",
        "before |= dict.fromkeys(then, name)",
        "pass",
        *SQLITE,
    ),
    documents(
        "no bound for a line",
        "each call reads and writes all waits of a resource",
        "state",
        "longest_line=LONGEST_LINE,",
        "longest_line=None,",
        *SQLITE,
    ),
    documents(
        "each refusal is told",
        "a line that is too long fills the log",
        "store",
        "self._told_of_line = True",
        "pass",
        *SQLITE,
    ),
    codec(
        "zero is as good as nothing",
        "a permit that was held for no time has no mean",
        "codec",
        "if each is not None}",
        "if each}",
    ),
    codec(
        "an unchanged nonce is an unchanged wait",
        "the text of a wait is found by what it was",
        "codec",
        "found = self._of.get(id(wait))",
        "found = next((each for each in self._of.values() if each[0].nonce == wait.nonce), None)",
    ),
    documents(
        "a call may lose for ever",
        "at a hot document some callers fail for seconds",
        "store",
        "lambda before: self._attempt(made, how, alone=before >= alone_after),",
        "lambda before: self._attempt(made, how, alone=False),",
    ),
    sql(
        "a lock is the file's",
        "MySQL has rows, and a call that locks none loses again",
        "documents",
        "if resources and not dialect.one_writer:",
        "if False:",
        "tests/stores/sql/test_mariadb.py",
    ),
    sql(
        "the row is there, so it is the one that was read",
        "what another client wrote meanwhile is lost",
        "documents",
        '" WHERE pk = ? AND sk = ? AND version = ?"',
        '" WHERE pk = ? AND sk = ? AND version >= ?"',
        *RULES,
    ),
    sql(
        "a new document has the first version",
        "one that was deleted and made anew is taken for the old one",
        "documents",
        "return max(time.time_ns() // 1000, before + 1)",
        "return before + 1",
        "tests/stores/sql/test_documents.py",
    ),
    sql(
        "what is there already is as good",
        "two clients make one document, and both think that it is theirs",
        "documents",
        'INSERT_NEW = "{insert_or_ignore} " + _VALUES',
        'INSERT_NEW = "INSERT " + _VALUES + "{or_replace}"',
        "tests/stores/sql/test_documents.py",
    ),
    sql(
        "a child has what its parent has",
        "both write over one connection",
        "link",
        "if self._pid != os.getpid():",
        "if False:",
    ),
    sql(
        "an idle child waits for its parent",
        "the lock was held by a thread that the child has not",
        "link",
        "self._lock = NonReentrantLock(self.timeout)",
        "self._lock = getattr(self, '_lock', None) or NonReentrantLock(self.timeout)",
    ),
    sql(
        "a log is flushed now and then",
        "a message that its broker forgot is lost with the host",
        "sqlite",
        "if connection.has_log and connection.flushes != keeps_message:",
        "if connection.has_log:\n            connection.execute('PRAGMA synchronous = NORMAL')\n        if False:",
    ),
    sql(
        "each commit is flushed",
        "a permit costs a flush of the disk",
        "sqlite",
        "if connection.has_log and connection.flushes != keeps_message:",
        "if False:",
    ),
    sql(
        "a locked file is an outage",
        "who waited a little would have been served",
        "sqlite",
        "if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):",
        "if False:",
    ),
    sql(
        "a full disk is any error",
        "parking does not stop",
        "sqlite",
        "if code == sqlite3.SQLITE_FULL",
        "if False",
    ),
    sql(
        "a child may have what its parent has open",
        "it has no lock of its own, and what a thread of its parent had locked stays locked",
        "link",
        "before=_before_fork,",
        "before=lambda: None,",
    ),
    sql(
        "an error says of itself what it is",
        "a table whose name has the word is waited for",
        "sqlite",
        "if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):",
        'if "locked" in said:',
    ),
    sql(
        "R4: a new resource has read no decision",
        "a pause that has returned lets one more in, at a key without a document",
        "documents",
        "if of_new and",
        "if False and",
        *RULES,
    ),
    documents(
        "R7: the time of a renewal is that of all its resources",
        "a batch of busy ones lasts for longer than a lease",
        "store",
        "if attempts.over():",
        "if False:",
    ),
    documents(
        "a message is kept whatever becomes of its wait",
        "nothing deletes one whose wait has other claims",
        "store",
        "            outgoing = engine.attach(",
        "            loaded.marks |= parked\n            outgoing = engine.attach(",
    ),
    documents(
        "a wait without its message stays",
        "it keeps the permit from all others",
        "store",
        "engine.release(grant.ticket, grant.claims)",
        "pass",
    ),
    documents(
        "sent names no resource",
        "an attempt that is alone locks none",
        "store",
        "arrive=arrive), named(grant.claims))",
        "arrive=arrive))",
    ),
    sql(
        "what has expired is not in the way",
        "the table grows for ever",
        "documents",
        'if self.rows("SELECT 1 FROM {table} WHERE expires <= ? LIMIT 1", now):',
        "if False:",
    ),
    sql(
        "a worker makes the table",
        "two of them at once, by a role that may not",
        "store",
        "raise ConfigurationError(self._lacks())",
        "self.install()",
    ),
)
