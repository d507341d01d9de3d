"""SeaweedFS as origin: S3, and an Iceberg REST catalog over a bucket of tables."""

import json
import pathlib
import sys

from .endpoint import Endpoint
from .process import Child, accepts, free_ports

ORIGIN_ACCESS_KEY = "origin-access"
ORIGIN_SECRET_KEY = "origin-secret-9f3a"
TABLE_BUCKET = "lakehouse"
OBJECT_BUCKET = "objects"
CATALOG_READY_LINE = "All enabled components are running"


class Seaweed:
    """One `weed mini` on free ports. `endpoint` is its S3, `catalog_url` its catalog.

    `identities` are known beside its own; `configuration` is the rest of its S3 configuration;
    `options` are further options of the command.
    """

    def __init__(self, folder, identities=(), configuration=None, options=()):
        folder = pathlib.Path(folder)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        known = folder / "identities.json"
        known.write_text(json.dumps({"identities": [*_identities(), *identities], **(configuration or {})}))
        names = ["master", "filer", "volume", "s3", "admin"]
        ports = free_ports(2 * len(names) + 1)
        command = [
            pathlib.Path(sys.executable).with_name("weed"),
            "mini",
            f"-dir={folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-webdav=false",
            "-admin.ui=false",
            "-master.telemetry=false",
            "-s3.port.lance=0",
            f"-s3.config={known}",
            f"-bucket={OBJECT_BUCKET}",
            f"-tableBucket={TABLE_BUCKET}",
            *options,
        ]
        for index, name in enumerate(names):
            command.append(f"-{name}.port={ports[2 * index]}")
            command.append(f"-{name}.port.grpc={ports[2 * index + 1]}")
        catalog_port = ports[-1]
        command.append(f"-s3.port.iceberg={catalog_port}")
        s3_port = ports[2 * names.index("s3")]
        self.endpoint = Endpoint(s3_port, ORIGIN_ACCESS_KEY, ORIGIN_SECRET_KEY)
        self.catalog_url = f"http://127.0.0.1:{catalog_port}"
        log = folder / "seaweed.log"
        self._child = Child("SeaweedFS", command, log, ready=lambda: self._is_ready(log, catalog_port))

    @property
    def log(self):
        return self._child.log

    def stop(self):
        self._child.stop()

    def _is_ready(self, log, catalog_port):
        started = CATALOG_READY_LINE in log.read_text(errors="replace")
        return started and accepts(self.endpoint.port) and accepts(catalog_port)


def _identities():
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    credentials = [{"accessKey": ORIGIN_ACCESS_KEY, "secretKey": ORIGIN_SECRET_KEY}]
    return [{"name": "origin", "credentials": credentials, "actions": actions}]
