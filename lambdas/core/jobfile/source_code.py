"""Which code of a program runs for certain, seen in its text alone.

From the module that is started: what is on its top level, what that imports from the archive, and every function
and method that this names. What stands in a branch, under `try`, after an early return or in a function that nobody
names may never run, and is left out: a program must not be refused for it.
"""

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

MOST_SOURCE_BYTES = 1024 * 1024
"""A longer file is data in Python's clothes; it is not looked into."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Broken:
    """A file that Python cannot compile: on that line, for that reason."""

    path: str
    line: int | None
    reason: str


@dataclass(eq=False)
class Module:
    """One file. `name` is its dotted name, `package` what its relative imports start from; `is_main` when it is what
    `python -m` runs."""

    path: str
    name: str
    package: str
    text: bytes
    tree: ast.Module
    is_main: bool

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """What a name stands for, as a dotted name, where the whole module binds it to nothing else: a name that is
        an argument or is assigned somewhere may be anything, and so may all where `*` was imported."""
        targets: dict[str, set[str | None]] = {}
        for node in ast.walk(self.tree):
            for name, target in _bindings(node, self.package):
                targets.setdefault(name, set()).add(target)
        if "*" in targets:
            return {}
        return {
            name: only for name, found in targets.items() if len(found) == 1 and (only := next(iter(found)))
        }

    def dotted(self, node: ast.AST) -> str | None:
        """`tf.train.Saver` as `tensorflow.train.Saver`, where `tf` is imported as that."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return None
        return ".".join([self.imports[node.id], *reversed(names)])


@dataclass(frozen=True)
class Reached:
    """The code that runs: its modules, its nodes with the module each stands in, and the files it stumbles over."""

    modules: tuple[Module, ...]
    nodes: tuple[tuple[Module, ast.AST], ...]
    broken: tuple[Broken, ...]


def imported(node: ast.AST, package: str) -> tuple[str, ...]:
    """The dotted names an import statement brings in: modules, and for `from` also what it takes out of them."""
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        base = _base(node, package)
        return (base, *(f"{base}.{alias.name}" for alias in node.names if alias.name != "*"))
    return ()


def reach(files: Mapping[str, bytes], entry: Iterable[tuple[str, str]], *, clustered: bool) -> Reached:
    """What runs of these files (text by path) when `entry` is started: (path, dotted name), its packages first and
    the module to run last. `clustered`: TF_CONFIG is set."""
    return _Walk(files, clustered).run(tuple(entry))


@dataclass(eq=False)
class _Walk:
    files: Mapping[str, bytes]
    clustered: bool
    modules: dict[str, Module] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)
    nodes: list[tuple[Module, ast.AST]] = field(default_factory=list)
    waiting: list[tuple[Module, Definition, str | None]] = field(default_factory=list)
    """Functions that nobody has named yet; of a method also its class."""
    named: set[tuple[str, str]] = field(default_factory=set)
    """(module, name): what the code names at its module's top level."""
    attributes: set[str] = field(default_factory=set)

    def run(self, entry: tuple[tuple[str, str], ...]) -> Reached:
        for path, name in entry:
            self.load(path, name, is_main=(path, name) == entry[-1])
        while self.wake():
            pass
        return Reached(tuple(self.modules.values()), tuple(self.nodes), tuple(self.broken))

    def load(self, path: str, name: str, *, is_main: bool = False) -> None:
        """Parse a file and go through its top level, once."""
        if path in self.modules or any(each.path == path for each in self.broken):
            return
        parsed = _parse(path, self.files[path])
        if isinstance(parsed, Broken):
            self.broken.append(parsed)
        elif parsed is not None:
            package = name if path.endswith("/__init__.py") else name.rpartition(".")[0]
            module = Module(path, name, package, self.files[path], parsed, is_main)
            self.modules[path] = module
            self.go(module, parsed.body)

    def go(self, module: Module, block: list[ast.stmt], owner: str | None = None) -> None:
        """Take in a block that runs."""
        for node in _certain(block, self.holds(module)):
            if isinstance(node, Definition):
                self.waiting.append((module, node, owner))
            elif isinstance(node, ast.ClassDef):
                self.go(module, node.body, node.name)
            else:
                self.nodes.append((module, node))
                self.name(module, node)
                for name in imported(node, module.package):
                    self.follow(name)

    def holds(self, module: Module) -> "Callable[[ast.expr], bool]":
        """Whether the condition of an `if` is known to be true."""
        return lambda test: (
            (module.is_main and _asks_for_main(test)) or (self.clustered and _asks_for_cluster(test))
        )

    def name(self, module: Module, node: ast.AST) -> None:
        """Note what the node names."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self.named.add((module.name, node.id))
        elif isinstance(node, ast.Attribute):
            self.attributes.add(node.attr)
        elif (
            isinstance(node, ast.Call)
            and (module.dotted(node.func) or "").endswith(".app.run")
            and not node.args
        ):
            self.named.add((module.name, "main"))
        dotted = module.dotted(node)
        if dotted:
            owner, _, name = dotted.rpartition(".")
            self.named.add((owner, name))

    def follow(self, name: str) -> None:
        """Load what an import of this name runs: every package on the way, then the module itself."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            base = "/".join(parts[:count])
            path = next((each for each in (f"{base}/__init__.py", f"{base}.py") if each in self.files), None)
            if path:
                self.load(path, ".".join(parts[:count]))

    def wake(self) -> bool:
        """Go through the functions that have been named since; whether there were any."""
        self.pass_on()
        waiting, self.waiting = self.waiting, []
        dead = [each for each in waiting if not self.is_named(*each)]
        asleep = {id(definition) for _, definition, _ in dead}
        live = [(module, definition) for module, definition, _ in waiting if id(definition) not in asleep]
        for module, definition in live:
            self.go(module, definition.body)
        self.waiting += dead
        return bool(live)

    def is_named(self, module: Module, definition: Definition, owner: str | None) -> bool:
        if owner is None:
            return (module.name, definition.name) in self.named
        is_called = definition.name.startswith("__") or definition.name in self.attributes
        return is_called and (module.name, owner) in self.named

    def pass_on(self) -> None:
        """Who names what a package only hands on names it where it comes from."""
        handed_on = {
            (module.name, name): target.rpartition(".")
            for module in self.modules.values()
            for name, target in module.imports.items()
        }
        fresh = list(self.named)
        while fresh:
            owner, _, name = handed_on.get(fresh.pop(), ("", "", ""))
            if owner and (owner, name) not in self.named:
                self.named.add((owner, name))
                fresh.append((owner, name))


def _parse(path: str, text: bytes) -> ast.Module | Broken | None:
    """None for what cannot be judged: too long, or too deep for the parser."""
    if len(text) > MOST_SOURCE_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, path, "exec", dont_inherit=True)
            return ast.parse(text, path)
    except SyntaxError as error:
        return Broken(path, error.lineno, error.msg)
    except ValueError as error:
        return Broken(path, None, str(error))
    except (RecursionError, MemoryError):
        return None


def _certain(block: Iterable[ast.stmt], holds: Callable[[ast.expr], bool]) -> Iterator[ast.AST]:
    """The nodes that are evaluated when the block runs, to its first way out."""
    for statement in block:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement
                arguments = statement.args
                yield from _evaluated(*statement.decorator_list, *arguments.defaults, *arguments.kw_defaults)
            case ast.ClassDef():
                yield statement
                keywords = [keyword.value for keyword in statement.keywords]
                yield from _evaluated(*statement.decorator_list, *statement.bases, *keywords)
            case ast.If():
                yield from _evaluated(statement.test)
                if holds(statement.test):
                    yield from _certain(statement.body, holds)
            case ast.For() | ast.AsyncFor():
                yield from _evaluated(statement.iter)
                yield from _certain(statement.body, holds)
            case ast.While():
                yield from _evaluated(statement.test)
                yield from _certain(statement.body, holds)
            case ast.With() | ast.AsyncWith():
                contexts = [item.context_expr for item in statement.items]
                yield from _evaluated(*contexts)
                if not any(_swallows(context) for context in contexts):
                    yield from _certain(statement.body, holds)
            case ast.Try() | ast.TryStar():
                if not statement.handlers:
                    yield from _certain(statement.body, holds)
                yield from _certain(statement.finalbody, holds)
            case ast.Match():
                yield from _evaluated(statement.subject)
            case ast.AnnAssign():
                yield from _evaluated(statement.value)
            case _:
                yield from _evaluated(statement)
        if _leaves(statement):
            return


def _evaluated(*expressions: ast.AST | None) -> Iterator[ast.AST]:
    """Each node below that is evaluated whenever the whole is: not the right side of `and`, nor a lambda's body."""
    waiting = list(reversed(expressions))
    while waiting:
        node = waiting.pop()
        match node:
            case None | ast.Lambda():
                continue
            case ast.BoolOp():
                waiting.append(node.values[0])
            case ast.IfExp():
                waiting.append(node.test)
            case _:
                yield node
                waiting += reversed(list(ast.iter_child_nodes(node)))


def _leaves(statement: ast.stmt) -> bool:
    """Whether what follows in the block may never come, though nothing fails."""
    if isinstance(statement, ast.Raise):
        return True
    ways_out: tuple[type[ast.AST], ...] = (ast.Return, ast.Break, ast.Continue)
    if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
        ways_out = (ast.Return,)
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Definition | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ways_out) or _exits(node):
            return True
        waiting += ast.iter_child_nodes(node)
    return False


def _exits(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="exit" | "quit")) | ast.Raise(exc=ast.Name(id="SystemExit")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="sys" | "os"), attr="exit" | "_exit")):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit"))):
            return True
    return False


def _swallows(context: ast.expr) -> bool:
    """`contextlib.suppress` and the like: an error inside may be wanted."""
    called = context.func if isinstance(context, ast.Call) else context
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "suppress" or "raises" in name.lower()


def _asks_for_main(test: ast.expr) -> bool:
    match test:
        case ast.Compare(
            left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
        ):
            return True
    return False


def _asks_for_cluster(test: ast.expr) -> bool:
    """`"TF_CONFIG" in os.environ`, `os.environ.get("TF_CONFIG")` or `os.getenv("TF_CONFIG")`."""
    match test:
        case ast.Compare(left=ast.Constant(value="TF_CONFIG"), ops=[ast.In()]):
            return True
        case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(value="TF_CONFIG"), *_]):
            return True
    return False


def _bindings(node: ast.AST, package: str) -> Iterator[tuple[str, str | None]]:
    """(name, dotted target) of a node that binds names; the target is None when it is no import."""
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
    """The dotted name before `import`, absolute."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*filter(None, above), *filter(None, [node.module])])
