"""The suite's users: the same keys at the origin, at the node, and in the suite's own configuration."""

import dataclasses

KMS_KEYS = ["testkey-1", "testkey-2"]
LIFECYCLE_DAY_SECONDS = 10


@dataclasses.dataclass(frozen=True)
class User:
    """One user, under the name of its section in the suite's configuration."""

    section: str
    user_id: str
    name: str
    email: str
    access_key: str
    secret_key: str
    tenant: str = ""


USERS = [
    User("s3 main", "testid", "M. Tester", "tester@example.com", "suite-main", "suite-main-secret-4be1"),
    User("s3 alt", "altid", "A. Tester", "alt@example.com", "suite-alt", "suite-alt-secret-77c0"),
    User(
        "s3 tenant",
        "tenantid",
        "T. Tester",
        "tenant@example.com",
        "suite-tenant",
        "suite-tenant-secret-d213",
        tenant="testx",
    ),
    User("iam", "iamid", "I. Tester", "iam@example.com", "suite-iam", "suite-iam-secret-10aa"),
    User("iam root", "rootid", "R. Tester", "root@example.com", "suite-root", "suite-root-secret-5c93"),
    User(
        "iam alt root",
        "altrootid",
        "B. Tester",
        "altroot@example.com",
        "suite-alt-root",
        "suite-alt-root-secret-e8d6",
    ),
]


def node_credentials():
    """Each user as a client of the node that is itself at the origin."""
    return [
        {
            "access_key": user.access_key,
            "secret_key": user.secret_key,
            "origin_access_key": user.access_key,
            "origin_secret_key": user.secret_key,
        }
        for user in USERS
    ]


def suite_configuration(endpoint, zone_group):
    """The suite's configuration file for an endpoint."""
    lines = [
        "[DEFAULT]",
        "host = 127.0.0.1",
        f"port = {endpoint.port}",
        "is_secure = False",
        "ssl_verify = False",
        "[fixtures]",
        "bucket prefix = suite-{random}-",
        "iam name prefix = suite-",
        "iam path prefix = /suite/",
    ]
    for user in USERS:
        lines += _section(user)
        if user.section == "s3 main":
            lines.append(f"api_name = {zone_group}")
            lines.append(f"kms_keyid = {KMS_KEYS[0]}")
            lines.append(f"kms_keyid2 = {KMS_KEYS[1]}")
            lines.append(f"lc_debug_interval = {LIFECYCLE_DAY_SECONDS}")
    return "\n".join(lines) + "\n"


def _section(user):
    tenant = f"{user.tenant}$" if user.tenant else ""
    lines = [
        f"[{user.section}]",
        f"display_name = {user.name}",
        f"user_id = {tenant}{user.user_id}",
        f"email = {user.email}",
        f"access_key = {user.access_key}",
        f"secret_key = {user.secret_key}",
    ]
    return lines + ([f"tenant = {user.tenant}"] if tenant else [])
