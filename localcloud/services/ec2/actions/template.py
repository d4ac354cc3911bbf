"""Launch templates, and merging of their parameters into a launch."""

from __future__ import annotations

from typing import Any

from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.store.records import backend

Parameters = dict[str, Any]
"""Members of an EC2 request or of a structure in it, with the names of the operation's model."""
MERGED_BY_MEMBER = ("MetadataOptions", "Placement", "Monitoring", "InstanceMarketOptions")


def plain(parsed: Any) -> Any:
    """Convert moto's parsed parameters to plain dictionaries, lists and strings."""
    if hasattr(parsed, "original_dict"):
        parsed = parsed.original_dict()
    if isinstance(parsed, Base64EncodedString):
        return str(parsed)
    if isinstance(parsed, dict):
        return {key: plain(value) for key, value in parsed.items()}
    return [plain(value) for value in parsed] if isinstance(parsed, list) else parsed


def tags_for(parameters: Parameters, resource_type: str) -> dict[str, str]:
    """Return the tags in TagSpecifications for this type of resource."""
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in parameters.get("TagSpecifications") or []
        if specification["ResourceType"] == resource_type
        for tag in specification.get("Tags") or []
    }


def template_version(specification: Parameters) -> Any:
    """Return the launch template version that a request names; by default $Default."""
    store = backend()
    if specification.get("LaunchTemplateId"):
        template = store.launch_templates.get(specification["LaunchTemplateId"])
        if template is None:
            raise EC2ClientError(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {specification['LaunchTemplateId']}, does not exist.",
            )
    else:
        name = specification.get("LaunchTemplateName")
        template = next((t for t in store.launch_templates.values() if t.name == name), None)
        if template is None:
            raise EC2ClientError(
                "InvalidLaunchTemplateName.NotFoundException",
                f"The specified launch template, with template name {name}, does not exist.",
            )
    return template.get_version(specification.get("Version") or "$Default")


def with_template(parameters: Parameters) -> Parameters:
    """Merge the launch template into the parameters. The request wins; tags and metadata options are combined."""
    specification = parameters.get("LaunchTemplate")
    if not specification:
        return dict(parameters)
    version = template_version(specification)
    template = {key: value for key, value in plain(version.data).items() if value not in (None, "", [], {})}
    merged = {**template, **parameters}
    for key in MERGED_BY_MEMBER:
        if key in template and key in parameters:
            merged[key] = {**template[key], **parameters[key]}
    merged["TagSpecifications"] = _united_tags(template, parameters)
    merged["BlockDeviceMappings"] = _united_devices(template, parameters)
    merged["LaunchTemplate"] = {"LaunchTemplateId": version.template.id, "Version": str(version.number)}
    return merged


def _united_tags(template: Parameters, request: Parameters) -> list[Parameters]:
    kinds = [
        s["ResourceType"] for source in (template, request) for s in source.get("TagSpecifications") or []
    ]
    united = {kind: {**tags_for(template, kind), **tags_for(request, kind)} for kind in kinds}
    return [
        {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        for kind, tags in united.items()
    ]


def _united_devices(template: Parameters, request: Parameters) -> list[Parameters]:
    devices = {d["DeviceName"]: d for d in template.get("BlockDeviceMappings") or []}
    for device in request.get("BlockDeviceMappings") or []:
        below = devices.get(device["DeviceName"], {})
        devices[device["DeviceName"]] = {
            **below,
            **device,
            "Ebs": {**below.get("Ebs", {}), **device.get("Ebs", {})},
        }
    return list(devices.values())
