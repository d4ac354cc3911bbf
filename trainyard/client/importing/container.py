"""The container image of another launcher's job as `program.container`."""

from typing import Any

from trainyard.client.importing.draft import Draft
from trainyard.command_line import command_line
from trainyard.core.model.names import store_secret
from trainyard.core.model.yard.registries import arn_of
from trainyard.protocol import image_reference
from trainyard.protocol.image_reference import DOCKER_HUB, NotAReferenceError

LOGIN = "registry"
"""The secret with the login, if the other launcher's job has one."""


def put_image(
    draft: Draft,
    image: Any,
    registry: Any,
    *path: str | int,
    has_login: bool = False,
    entrypoint: bool = True,
) -> bool:
    """Run the program in this image, and return True if that is possible. `registry` is the address of its registry, if
    the image does not name it. `entrypoint` is False for a launcher that leaves the image's ENTRYPOINT out."""
    if not image:
        return False
    host = str(registry or "").partition("://")[2] or str(registry or "")
    host = "" if host.rstrip("/") in image_reference.DOCKER_HUB_NAMES else host.rstrip("/")
    text = f"{host}/{image}" if host and not str(image).startswith(f"{host}/") else str(image)
    try:
        found = image_reference.parse(text)
    except NotAReferenceError as error:
        draft.origin.note(*path, reason=f"{error}; write program.container yourself")
        return False
    setting = arn_of(found) or found.registry
    deploy = command_line("yard", "deploy", "-c", f"registries={setting}")
    draft.origin.note(
        *path,
        reason=f"the program runs in this image, if the yard may use its registry (a setting, next to those that it "
        f"has): {deploy}",
    )
    container: dict[str, Any] = {"image": text} | ({} if entrypoint else {"entrypoint": False})
    has_login = has_login and not found.ecr
    if has_login:
        container["login"] = LOGIN
    draft.put(container if len(container) > 1 else text, "program", "container")
    if not has_login:
        return True
    where = "" if found.registry == DOCKER_HUB else f" of {found.registry}"
    draft.origin.note(
        *path,
        reason=f"the login{where} is not copied; store user:password, typed unseen: "
        + store_secret(f"/trainyard/secrets/{LOGIN}"),
    )
    return True
