"""The lab: a real lakehouse on this machine and a node before it, until Ctrl-C.

Started by `cargo lab`, which builds the node and this environment first.
"""

import argparse
import signal
import tempfile

from . import tables
from .endpoint import REGION
from .node import Node
from .recorder import REPOSITORY, Recorder
from .seaweed import TABLE_BUCKET, Seaweed

CONNECT = """
The lab is up. Scale {scale}: {rows:,} rows of lineitem.

  node      http://{host}    access key {access_key}    secret key {secret_key}
  admin     http://127.0.0.1:{admin}/metrics
  origin    {origin}    access key {origin_access}    secret key {origin_secret}
  catalog   {catalog}    warehouse {bucket}

DuckDB:
  INSTALL httpfs; INSTALL iceberg; LOAD httpfs; LOAD iceberg;
  CREATE SECRET catalog (TYPE iceberg, CLIENT_ID '{origin_access}', CLIENT_SECRET '{origin_secret}',
      OAUTH2_SERVER_URI '{catalog}/v1/oauth/tokens');
  CREATE SECRET data (TYPE s3, KEY_ID '{access_key}', SECRET '{secret_key}', ENDPOINT '{host}',
      REGION '{region}', URL_STYLE 'path', USE_SSL false);
  ATTACH '{bucket}' AS lake (TYPE iceberg, SECRET catalog, ENDPOINT '{catalog}',
      ACCESS_DELEGATION_MODE 'none');
  SELECT count(*) FROM lake.{namespace}.lineitem;

PyIceberg:
  load_catalog("lab", type="rest", uri="{catalog}", prefix="{bucket}",
      warehouse="s3://{bucket}", credential="{origin_access}:{origin_secret}",
      **{{"oauth2-server-uri": "{catalog}/v1/oauth/tokens", "s3.endpoint": "http://{host}",
         "s3.access-key-id": "{access_key}", "s3.secret-access-key": "{secret_key}",
         "s3.region": "{region}"}})

Ctrl-C ends it.
"""


def main():
    parser = argparse.ArgumentParser(prog="cargo lab")
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--latency-ms", type=int, default=0)
    arguments = parser.parse_args()
    # Ctrl-C ends the lab from wherever it is; until then the signal is an exception like any other.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = []
    with tempfile.TemporaryDirectory(prefix="nilas-lab-") as folder:
        try:
            seaweed = _keep(started, Seaweed(f"{folder}/seaweed"))
            recorder = _keep(started, Recorder(seaweed.endpoint, folder, arguments.latency_ms))
            catalog = tables.open_catalog(seaweed, seaweed.endpoint)
            tables.load(catalog, tables.generate(arguments.scale, REPOSITORY / "target" / "lakehouse"))
            node = _keep(started, Node(recorder.endpoint, f"{folder}/node"))
            rows = catalog.load_table(f"{tables.NAMESPACE}.lineitem").scan().count()
            print(_text(arguments.scale, rows, seaweed, node), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            print("\nThe lab ends.")
        finally:
            for each in reversed(started):
                each.stop()


def _keep(started, server):
    started.append(server)
    return server


def _text(scale, rows, seaweed, node):
    return CONNECT.format(
        scale=scale,
        rows=rows,
        host=node.endpoint.host,
        access_key=node.endpoint.access_key,
        secret_key=node.endpoint.secret_key,
        admin=node.admin_port,
        origin=seaweed.endpoint.url,
        origin_access=seaweed.endpoint.access_key,
        origin_secret=seaweed.endpoint.secret_key,
        catalog=seaweed.catalog_url,
        bucket=TABLE_BUCKET,
        namespace=tables.NAMESPACE,
        region=REGION,
    )


if __name__ == "__main__":
    main()
