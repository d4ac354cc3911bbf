"""Registries of container images: Amazon ECR, and Docker Hub, nvcr.io and others by their names.

ministack has the API of ECR and stores the images. This package adds who may pull, the names of registries, TLS,
ranges, the address of a layer, and faults.
"""
