"""Conformance: the suite ceph/s3-tests against an origin directly and through a node, test by test.

The origin is the reference: what passes directly has to pass through the node. The suite is fetched,
never changed and never committed. By hand, in tools/end_to_end, with the environment of the tests:

    PYTHON -m lakehouse.conformance --origin seaweedfs
"""
