"""Mutants of the core and of the memory store, made by mutmut: ``tests.mutants`` runs this in a copy.

mutmut deletes no statement and forgets no condition; the operators here do.
It changes texts, which are for people, and what mypy sees; both are left out.
"""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.trampoline_templates import mangle_function_name
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

PACKAGE = Path("celery_semaphore")
# It has a clock of its own: what it finds in the memory store is the same each time, and soon there.
CONFORMANCE = "tests/stores/test_conformance.py::TestMemoryStore"
_OPEN, _CLOSE = (cst.LeftParen(),), (cst.RightParen(),)
CAUGHT = {"killed", "timeout", "caught by type check", "segfault"}


def deleted(line: cst.SimpleStatementLine) -> Iterator[cst.SimpleStatementLine]:
    """Delete a statement that does something, other than to name a value or to return one."""
    if len(line.body) == 1 and _does_something(line.body[0]):
        yield line.with_changes(body=[cst.Pass()])


def _does_something(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Expr):
        return not isinstance(statement.value, cst.BaseString)
    if isinstance(statement, cst.Assign):
        return not any(isinstance(each.target, cst.Name) for each in statement.targets)
    if isinstance(statement, cst.Return):
        return statement.value is None
    return isinstance(statement, cst.AugAssign | cst.Del | cst.Raise | cst.Continue | cst.Break)


def forced(node: cst.If | cst.CompIf) -> Iterator[cst.CSTNode]:
    """Take a condition for true, and for false."""
    for value in ("True", "False"):
        yield node.with_changes(test=cst.Name(value, lpar=_OPEN, rpar=_CLOSE))


def forgotten(node: cst.BooleanOperation) -> Iterator[cst.BaseExpression]:
    """Forget one of two conditions."""
    for term in (node.left, node.right):
        yield term.with_changes(lpar=[*_OPEN, *term.lpar], rpar=[*term.rpar, *_CLOSE])


def unbounded(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Take one of two for the smaller or the larger of both."""
    if m.matches(call.func, m.Name("min") | m.Name("max")) and len(call.args) == 2:
        for argument in call.args:
            if not (argument.keyword or argument.star):
                yield argument.value


def dropped(call: cst.Call) -> Iterator[cst.Call]:
    """Drop an argument that is given by its name, so that its default stands."""
    for number, argument in enumerate(call.args):
        if argument.keyword is not None:
            yield call.with_changes(args=[*call.args[:number], *call.args[number + 1 :]])


LEFT_OUT = {
    mutators.operator_string,  # texts are for people
    mutators.operator_arg_removal,  # what it leaves out or makes None, mypy sees
    mutators.operator_assignment,  # likewise
}
ADDED = [
    (cst.SimpleStatementLine, deleted),
    (cst.If, forced),
    (cst.CompIf, forced),
    (cst.BooleanOperation, forgotten),
    (cst.Call, unbounded),
    (cst.Call, dropped),
]


OPERATORS = [each for each in mutators.mutation_operators if each[1] not in LEFT_OUT] + ADDED


@dataclass(frozen=True)
class Generated:
    """A mutant that mutmut makes, and where."""

    key: str  # mutmut's name of it
    file: Path
    line: int
    function: str
    before: str
    after: str

    def is_called(self, name: str) -> bool:
        file = self.file.relative_to(PACKAGE).as_posix()
        return fnmatchcase(file, name) or fnmatchcase(f"{file}:{self.function}", name)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.before}  ->  {self.after}"


def generated(file: Path) -> Iterator[Generated]:
    """All mutants of a file, in mutmut's order, from which their names come."""
    module, mutations, *_ = file_mutation.create_mutations(str(file), file.read_text("utf-8"))
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    for node, each in file_mutation.group_by_top_level_node(mutations).items():
        if not isinstance(node, cst.FunctionDef):
            continue  # mutmut mutates functions only
        owner = _class_of(module, node)
        function = f"{owner}.{node.name.value}" if owner else node.name.value
        mangled = mangle_function_name(name=node.name.value, class_name=owner)
        for number, mutation in enumerate(each, 1):
            key = get_mutant_name(file, f"{mangled}__mutmut_{number}")
            line = positions[mutation.original_node].start.line
            shown = (
                _shown(module, each) for each in (mutation.original_node, mutation.mutated_node)
            )
            yield Generated(key, file, line, function, *shown)


def _class_of(module: cst.Module, function: cst.FunctionDef) -> str | None:
    for statement in module.body:
        if isinstance(statement, cst.ClassDef) and function in statement.body.body:
            return statement.name.value
    return None


def _shown(module: cst.Module, node: cst.CSTNode) -> str:
    """The code of a node, of one with a body the head only."""
    if isinstance(node, cst.If):
        return f"if {module.code_for_node(node.test)}"
    code = module.code_for_node(node)
    lines = (line.strip() for line in code.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("#")).replace(", )", ")")


def main(names: Sequence[str], jobs: int) -> int:
    mutants = [each for file in walk_mutatable_files() for each in generated(file)]
    chosen = [each for each in mutants if not names or any(map(each.is_called, names))]
    if not chosen:
        sys.exit(f"no generated mutant is called {' '.join(names)}")
    config().only_mutate = sorted({str(each.file) for each in chosen})
    if not any(each.file.is_relative_to(PACKAGE / "core") for each in chosen):
        config().pytest_add_cli_args_test_selection = [CONFORMANCE]
    print(f"{len(chosen)} generated mutants", flush=True)
    try:
        with quiet(Path("said")):
            mutmut._run([each.key for each in chosen] if names else [], jobs)
    except SystemExit:  # its tests fail without a mutant
        said = re.sub(r"(?m)^\r?. (?:Generating|Running).*\n?", "", Path("said").read_text("utf-8"))
        print(said[-2000:])
        raise
    return told(chosen)


@contextmanager
def quiet(said: Path) -> Iterator[None]:
    """Write what this process and its children print into a file: mutmut prints each mutant."""
    sys.stdout.flush()
    printed = os.dup(1)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(printed, 1)
        os.close(printed)


def told(chosen: Iterable[Generated]) -> int:
    """Print what survived, and where."""
    verdicts: dict[str, str] = {}
    for file in walk_mutatable_files():
        data = SourceFileMutationData(path=file)
        data.load()
        verdicts |= {key: status_by_exit_code[code] for key, code in data.exit_code_by_key.items()}
    counts: Counter[str] = Counter()
    for mutant in chosen:
        verdict = verdicts[mutant.key]
        counts[verdict] += 1
        if verdict not in CAUGHT:
            print(f"{'SURVIVED' if verdict == 'survived' else verdict:9} {mutant}")
    print(
        f"\n{counts.total()} generated mutants:", ", ".join(f"{n} {v}" for v, n in counts.items())
    )
    return int(not counts.keys() <= CAUGHT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    mutators.mutation_operators[:] = OPERATORS
    sys.exit(main(given.names, given.jobs))
