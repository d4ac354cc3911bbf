"""Container images of a recipe: pulled onto the image of the hosts, and tested there."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

from training.baking.bench import Bench
from training.baking.builder import Builder
from training.baking.recipe import named
from training.baking.results import Finding, failed, passed
from training.host import account
from training.host.container import driver, kept
from training.host.container.enter import NOT_FOUND
from training.host.container.inside import Inside, clear_changes
from training.host.container.pull import digest_for, pull, recall
from training.host.container.registry import Registry
from training.host.errors import HostTrouble, ProgramFault
from training.host.program import container_commands as commands
from training.host.program.container_login import Logins
from trainyard.protocol.containers import Container
from trainyard.protocol.tags import Tag
from trainyard.values.quantities import format_count

SECONDS = 120
LOOK_SECONDS = 0.5


def pull_images(builder: Builder) -> None:
    """Pull the recipe's container images to where runs find them. Raises ProgramFault with the entry that cannot be
    pulled, or HostTrouble if its registry does not answer."""
    paths, programs = builder.paths, account.find()
    logins = Logins(
        session=builder.session, yard=builder.identity.tags.get(Tag.YARD, ""), who="the role of builders"
    )
    for index, container in enumerate(builder.recipe.containers):
        digest = _digest(builder, index)
        builder.log.note(f"{container.image}: {digest}")
        kept.give(digest, paths, programs)
        try:
            _pull(builder, programs, logins.open(container), digest)
        except HostTrouble as trouble:
            fault = ProgramFault if trouble.final else HostTrouble
            raise fault(f"{_entry(builder, index)}: {trouble.reason}") from trouble
        kept.store(digest, paths)


def _pull(builder: Builder, programs: account.Account, registry: Registry, digest: str) -> None:
    """Pull an image in a thread that acts as the account of programs, which may not write the builder's log."""
    lines: SimpleQueue[str] = SimpleQueue()

    def act() -> None:
        with programs.act():
            pull(registry, digest, builder.paths.containers, tell=lines.put)

    with ThreadPoolExecutor(1, thread_name_prefix="pull") as pool:
        pulled = pool.submit(act)
        while not pulled.done() or not lines.empty():
            try:
                builder.log.note(lines.get(timeout=LOOK_SECONDS))
            except Empty:
                continue
        pulled.result()


def container_test(bench: Bench, index: int) -> Finding:
    """Start `true` in a container. On a GPU, list the devices there."""
    builder = bench.builder
    paths, programs, digest = builder.paths, account.find(), _digest(builder, index)
    kept.give(digest, paths, programs)
    image = recall(paths.containers, digest)
    if image is None:
        return failed(f"{_entry(builder, index)} is not on the disk")
    inside = Inside(container=builder.recipe.containers[index], image=image, driver=driver.find(paths))
    paths.home.mkdir(parents=True, exist_ok=True)
    programs.give(paths.home)
    try:
        return _start(bench, inside, programs)
    except subprocess.TimeoutExpired:
        return failed(f"a command in it did not end within {SECONDS} s")
    finally:
        clear_changes(paths, programs)
        kept.store(digest, paths)


def _start(bench: Bench, inside: Inside, programs: account.Account) -> Finding:
    paths = bench.builder.paths
    clear_changes(paths, programs)
    done = commands.run(inside, paths, programs, ["true"], seconds=SECONDS)
    if done.returncode not in (0, NOT_FOUND):
        return failed(f"`true` ended with exit code {done.returncode} in it: {done.stderr.strip()[-500:]}")
    started = (
        "`true` starts in it" if done.returncode == 0 else "it can be entered, and has no command `true`"
    )
    if bench.without_gpu:
        return passed(started)
    listed = commands.run(inside, paths, programs, ["nvidia-smi", "-L"], seconds=SECONDS)
    if listed.returncode == NOT_FOUND:
        return passed(f"{started}; it cannot execute nvidia-smi: {listed.stderr.strip()[-500:]}")
    seen = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
    if listed.returncode or seen != bench.builder.gpus:
        shown = (listed.stderr.strip() or listed.stdout.strip())[-500:]
        return failed(f"it sees {seen} of {format_count(bench.builder.gpus, 'GPU')}: {shown}")
    return passed(f"{started}; it sees {format_count(seen, 'GPU')}")


def _entry(builder: Builder, index: int) -> str:
    return named("containers", tuple(each.image for each in builder.recipe.containers), index)


def _digest(builder: Builder, index: int) -> str:
    container: Container = builder.recipe.containers[index]
    found = digest_for(container)
    if not found:
        raise ProgramFault(f"{_entry(builder, index)} has no manifest for this builder's processors")
    return found
