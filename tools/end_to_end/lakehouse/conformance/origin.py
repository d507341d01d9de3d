"""The origins that the suite is held against, each started empty with the suite's users."""

from ..seaweed import Seaweed
from .radosgw import RadosGateway
from .user import USERS

# Keys for SSE-KMS that live in the server's memory, made when they are first named.
KEY_SERVICE = {
    "kms": {
        "default_provider": "local",
        "providers": {"local": {"type": "local", "enableOnDemandCreate": True}},
    }
}
ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]


class SeaweedOrigin(Seaweed):
    """SeaweedFS; buckets that hold objects are not deleted, as in S3."""

    zone_group = ""
    restarts = 0

    def __init__(self, folder):
        options = ["-s3.allowDeleteBucketNotEmpty=false"]
        super().__init__(folder, [_identity(user) for user in USERS], KEY_SERVICE, options)


ORIGINS = {"seaweedfs": SeaweedOrigin, "rgw": RadosGateway}
NAMES = {"seaweedfs": "SeaweedFS", "rgw": "Ceph RGW"}


def _identity(user):
    return {
        "name": user.section.replace(" ", "-"),
        "account": {"id": user.user_id, "displayName": user.name, "emailAddress": user.email},
        "credentials": [{"accessKey": user.access_key, "secretKey": user.secret_key}],
        "actions": ACTIONS,
    }
