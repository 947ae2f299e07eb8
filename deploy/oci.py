#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""oci.py ROOT ARCHIVE TAG: the files below ROOT as an OCI image of one layer, in a tar archive that podman, buildah,
skopeo, docker and containerd load. Nothing but tar and gzip is used.

The image is the same to the byte for the same files: times are SOURCE_DATE_EPOCH's, or 0.
"""
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


class Archive:
    """An image layout that is written as it is made."""

    def __init__(self, path):
        self.tar = tarfile.open(path, "w")

    def add(self, name, data):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(data), 0o644, EPOCH
        self.tar.addfile(entry, io.BytesIO(data))

    def blob(self, media_type, data):
        """Adds it by its digest, and returns the words by which others name it."""
        if not isinstance(data, bytes):
            data = json.dumps(data, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        self.add("blobs/sha256/" + digest, data)
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(data)}


def layer_of(root):
    """All files but what only a running system has, as tar; the same for the same files."""
    return subprocess.run(
        ["tar", "-C", root, "--sort=name", "--numeric-owner", f"--mtime=@{EPOCH}", "--one-file-system",
         "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./run/*", "--exclude=./tmp/*", "-c", "."],
        check=True, stdout=subprocess.PIPE).stdout


def main():
    root, path, tag = sys.argv[1:]
    layer = layer_of(root)
    packed = subprocess.run(["gzip", "-n", "-6"], input=layer, check=True, stdout=subprocess.PIPE).stdout
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    archive = Archive(path)
    archive.add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    config = archive.blob("application/vnd.oci.image.config.v1+json", {
        "created": created,
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {
            "Cmd": ["rdmad"],
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.title": "rdmad", "org.opencontainers.image.licenses": "MIT"},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "deploy/image.sh"}],
    })
    manifest = archive.blob("application/vnd.oci.image.manifest.v1+json", {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [archive.blob("application/vnd.oci.image.layer.v1.tar+gzip", packed)],
    })
    manifest["annotations"] = {"org.opencontainers.image.ref.name": tag}
    archive.add("index.json", json.dumps({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    }, sort_keys=True).encode())
    archive.tar.close()
    print(f"{path}: {tag}, {len(packed)} bytes of files")


if __name__ == "__main__":
    main()
