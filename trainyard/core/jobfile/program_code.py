"""The Python code of a program: the modules that its start imports, and the targets of imported names."""

import ast
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from trainyard.values.lazy import dataclass

MOST_READ = 512 * 1024
"""The most bytes of all inspected files. Python's compiler took 27 s and 644 MB for four times as many."""
PYTHON_2 = ("Missing parentheses in call to", "multiple exception types must be parenthesized")


NEWER_SYNTAX = (
    ((3, 12), re.compile(r"^\s*type\s+\w+\s*(\[.*\])?\s*=")),
    ((3, 12), re.compile(r"^\s*(async\s+)?(def|class)\s+\w+\s*\[")),
    ((3, 12), re.compile(r"\b([fF][rR]?|[rR][fF])['\"]")),
    ((3, 14), re.compile(r"\b([tT][rR]?|[rR][tT])['\"]")),
)
"""Syntax that older Pythons cannot compile, with the first version that can."""
HOSTS_PYTHON = (3, 12)
"""The Python of the default base image. Another base image may have another version."""


@dataclass(frozen=True)
class Broken:
    """A file that Python cannot compile."""

    path: str
    line: int | None
    reason: str
    needs: tuple[int, int] | None = None
    """The newer Python that may be able to compile the file."""

    def __str__(self) -> str:
        where = f"{self.path} line {self.line}" if self.line else self.path
        if self.needs:
            return (
                f"{where} cannot be compiled by the Python {_named(sys.version_info)} that checks it here "
                f"({self.reason}), but may be valid for Python {_named(self.needs)} or newer; hosts have Python "
                f"{_named(HOSTS_PYTHON)} unless their base image has another"
            )
        python_2 = "; this is Python 2, hosts have Python 3" if self.reason.startswith(PYTHON_2) else ""
        return f"{where} cannot be compiled: {self.reason}{python_2}"


@dataclass(eq=False)
class Module:
    """A Python file of a program."""

    path: str
    package: str
    """The package that relative imports start from."""
    text: bytes
    tree: ast.Module
    is_main: bool
    """True for the module that `python -m` runs."""

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """Return the dotted target of each name that the module binds only by imports. A name that is an argument or is
        assigned somewhere is left out. After `import *` no name is certain."""
        targets: dict[str, set[str | None]] = {}
        for node in ast.walk(self.tree):
            for name, target in _bindings(node, self.package):
                targets.setdefault(name, set()).add(target)
        if "*" in targets:
            return {}
        return {
            name: only for name, found in targets.items() if len(found) == 1 and (only := next(iter(found)))
        }

    def dotted_name(self, node: ast.AST) -> str | None:
        """Return `tf.train.Saver` as `tensorflow.train.Saver` if `tf` is imported as `tensorflow`."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return None
        return ".".join([self.imports[node.id], *reversed(names)])


def reach(
    files: Mapping[str, bytes],
    entry: Iterable[tuple[str, str]],
    nodes: Callable[[Module], Iterable[ast.AST]],
) -> tuple[list[Module], list[Broken]]:
    """Return the modules that run when `entry` is started and that `nodes` import, and the files that cannot be
    compiled.

    `entry` has the path and the dotted name of each file, the packages first and the main module last. `files` has each
    text by its path. At most MOST_READ bytes are read.
    """
    waiting = deque(entry)
    main, left = list(waiting)[-1:], MOST_READ
    seen, modules, broken = set(), [], []
    while waiting:
        path, name = waiting.popleft()
        if path in seen or path not in files or len(files[path]) > left:
            continue
        seen.add(path)
        left -= len(files[path])
        tree = _parse(path, files[path])
        if isinstance(tree, Broken):
            broken.append(tree)
        elif tree is not None:
            package = name if path.endswith("/__init__.py") else name.rpartition(".")[0]
            modules.append(Module(path, package, files[path], tree, [(path, name)] == main))
            for node in nodes(modules[-1]):
                for each in list_imports(node, package):
                    waiting += _files_of(each)
    return modules, broken


def at_start(module: Module) -> Iterator[ast.AST]:
    """Yield the imports that every start of the module runs, before any other statement."""
    for statement in module.tree.body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Assign() | ast.AnnAssign():
                continue
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                return


def in_no_branch(module: Module) -> Iterator[ast.AST]:
    """Yield the nodes that always run: without those under `if` or `try` and without annotations."""
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(_inside(node, is_main=module.is_main)))


def _inside(node: ast.AST, *, is_main: bool) -> Iterable[ast.AST]:
    match node:
        case ast.If():
            return [node.test, *(node.body if _holds(node.test, is_main=is_main) else ())]
        case ast.IfExp():
            return [node.test]
        case ast.BoolOp():
            return node.values[:1]
        case ast.Match():
            return [node.subject]
        case ast.Try() | ast.TryStar() if node.handlers:
            return node.finalbody
        case ast.With() if "suppress" in ast.dump(node.items[0]):
            return []
    left_out = {id(value) for name, value in ast.iter_fields(node) if name in ("annotation", "returns")}
    return (child for child in ast.iter_child_nodes(node) if id(child) not in left_out)


def _holds(test: ast.expr, *, is_main: bool) -> bool:
    """Return True if the condition of an `if` is true on a host: a test for the main module or for a cluster."""
    text = ast.dump(test)
    return "'TF_CONFIG'" in text or (is_main and "'__main__'" in text)


def list_imports(node: ast.AST, package: str) -> tuple[str, ...]:
    """Return the dotted names of an import statement: modules and, for `from`, also the names imported from them."""
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        base = _base(node, package)
        return (base, *(f"{base}.{alias.name}" for alias in node.names if alias.name != "*"))
    return ()


def _files_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield the files that an import of this name may read: every package on its path, then the module."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        base, dotted = "/".join(parts[:count]), ".".join(parts[:count])
        yield from ((f"{base}/__init__.py", dotted), (f"{base}.py", dotted))


def _parse(path: str, text: bytes) -> ast.Module | Broken | None:
    """Parse a file. Return None for a file that is too deep for the parser."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, path, "exec", dont_inherit=True)
            return ast.parse(text, path)
    except SyntaxError as error:
        return Broken(path, error.lineno, error.msg, needed_python(text, error.lineno))
    except ValueError as error:
        return Broken(path, None, str(error))
    except (RecursionError, MemoryError):
        return None


def needed_python(text: bytes, line: int | None) -> tuple[int, int] | None:
    """Return the Python whose syntax the line may have, if it is newer than the running one."""
    lines = text.decode(errors="replace").splitlines()
    wrong = lines[line - 1] if line and line <= len(lines) else ""
    newer = (since for since, pattern in NEWER_SYNTAX if sys.version_info < since and pattern.search(wrong))
    return next(newer, None)


def _named(version: Sequence[int | str]) -> str:
    return f"{version[0]}.{version[1]}"


def _bindings(node: ast.AST, package: str) -> Iterator[tuple[str, str | None]]:
    """Yield each name that a node binds, with its dotted target, or None if it is not an import."""
    match node:
        case ast.Import():
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        case ast.ImportFrom():
            base = _base(node, package)
            for alias in node.names:
                yield alias.asname or alias.name, f"{base}.{alias.name}"
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield node.id, None
        case ast.arg():
            yield node.arg, None
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, None
        case ast.ExceptHandler(name=str() as name):
            yield name, None


def _base(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute dotted name before `import`."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*filter(None, above), *filter(None, [node.module])])
