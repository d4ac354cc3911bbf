"""Who may do what, as sentences. Each names exactly the calls a handler makes, on the narrowest resource AWS knows.

Two kinds of `*` remain, each accepted with its reason where it is granted. Calls for which AWS has no resource at all
(Describe and the like): `anywhere` gives those. And `*` for an id that only exists later: a prefix of the bucket or a
tag condition narrows those.
"""

from stacks.constructs.permissions.calls import allow, answer_tasks, anywhere, publish_metrics
from stacks.constructs.permissions.data import (
    delete_objects,
    list_objects,
    read_objects,
    read_parameters,
    read_versions,
    use_ledger,
    write_objects,
)
from stacks.constructs.permissions.hosts import (
    YARD_TAG,
    command_hosts,
    end_hosts,
    image_hosts,
    mark_hosts,
    retire_images,
    start_hosts,
    tagged,
)
from stacks.constructs.permissions.launches import launch_hosts, plan_launches

__all__ = [
    "YARD_TAG",
    "allow",
    "answer_tasks",
    "anywhere",
    "command_hosts",
    "delete_objects",
    "end_hosts",
    "image_hosts",
    "launch_hosts",
    "list_objects",
    "mark_hosts",
    "plan_launches",
    "publish_metrics",
    "read_objects",
    "read_parameters",
    "read_versions",
    "retire_images",
    "start_hosts",
    "tagged",
    "use_ledger",
    "write_objects",
]
