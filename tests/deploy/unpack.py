#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""unpack.py ARCHIVE DIRECTORY: the files of an OCI image, as a runtime takes it apart: each digest and size is
compared, from the index down."""
import gzip
import hashlib
import io
import json
import sys
import tarfile


def main():
    archive, directory = sys.argv[1:]
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}

    def blob(words, media_type):
        data = files["blobs/sha256/" + words["digest"].removeprefix("sha256:")]
        if words["mediaType"] != media_type or len(data) != words["size"]:
            sys.exit(f"{words['digest']}: is {len(data)} bytes of {words['mediaType']}")
        if "sha256:" + hashlib.sha256(data).hexdigest() != words["digest"]:
            sys.exit(f"{words['digest']}: has another digest")
        return data

    if json.loads(files["oci-layout"])["imageLayoutVersion"] != "1.0.0":
        sys.exit("oci-layout: another version")
    kind = "application/vnd.oci.image."
    index = json.loads(files["index.json"])
    manifest = json.loads(blob(index["manifests"][0], kind + "manifest.v1+json"))
    config = json.loads(blob(manifest["config"], kind + "config.v1+json"))
    if len(config["rootfs"]["diff_ids"]) != len(manifest["layers"]) or config["os"] != "linux":
        sys.exit("the configuration is of other layers")
    for words, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"]):
        layer = gzip.decompress(blob(words, kind + "layer.v1.tar+gzip"))
        if "sha256:" + hashlib.sha256(layer).hexdigest() != diff_id:
            sys.exit(f"{words['digest']}: is another layer when it is unpacked")
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            tar.extractall(directory, numeric_owner=True)
    print(f"{index['manifests'][0]['annotations']['org.opencontainers.image.ref.name']}: {config['config']['Cmd']}")


if __name__ == "__main__":
    main()
