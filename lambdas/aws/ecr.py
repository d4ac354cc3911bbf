"""Amazon ECR: manifests, tags and configurations of images."""

import hashlib
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol.image_reference import Reference

NO_REPOSITORY = "RepositoryNotFoundException"
MOST_LISTED = 1000
"""Images that are listed for the nearest tags."""
SECONDS, TRIES = 20, 3


class RepositoryMissingError(Exception):
    """The repository does not exist."""


class EcrImages:
    """A repository of Amazon ECR."""

    def __init__(self, image: Reference) -> None:
        ecr = image.ecr
        assert ecr is not None
        self._client = client("ecr", ecr["region"])
        self._names = {"registryId": ecr["account"], "repositoryName": image.repository}

    def manifest(self, version: str, accepted: Sequence[str]) -> tuple[bytes, str] | None:
        """Return the manifest of a tag or digest, and its digest; None if the repository has none. Raise
        RepositoryMissingError without the repository."""
        key = "imageDigest" if version.startswith("sha256:") else "imageTag"
        try:
            answer = self._client.batch_get_image(
                **self._names, imageIds=[{key: version}], acceptedMediaTypes=list(accepted)
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == NO_REPOSITORY:
                raise RepositoryMissingError from error
            raise
        for found in answer.get("images", ()):
            return str(found["imageManifest"]).encode(), str(found["imageId"]["imageDigest"])
        return None

    def blob(self, digest: str) -> bytes:
        """Return a configuration, which ECR sends from a bucket of its own."""
        answer, why = self._client.get_download_url_for_layer(**self._names, layerDigest=digest), ""
        for _ in range(TRIES):
            try:
                with urllib.request.urlopen(answer["downloadUrl"], timeout=SECONDS) as body:  # noqa: S310 - AWS's address
                    found = bytes(body.read())
            except (OSError, HTTPException) as error:
                why = str(error)
                continue
            if f"sha256:{hashlib.sha256(found).hexdigest()}" == digest:
                return found
            why = "its bytes have another checksum"
        raise ServiceUnavailable(f"Amazon ECR did not send {digest} in {TRIES} tries: {why}")

    def tags(self) -> list[str]:
        """Return the tags of the repository. The newest image comes first."""
        pages = self._client.get_paginator("describe_images").paginate(
            **self._names, filter={"tagStatus": "TAGGED"}, PaginationConfig={"MaxItems": MOST_LISTED}
        )
        images = [image for page in pages for image in page["imageDetails"]]
        images.sort(key=lambda image: image["imagePushedAt"], reverse=True)
        return [str(tag) for image in images for tag in image.get("imageTags", ())]
