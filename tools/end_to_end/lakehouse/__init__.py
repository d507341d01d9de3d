"""A small lakehouse on loopback: a real origin and catalog, real tables, the recorder, the node.

The tests and `cargo lab` share it. Every port is a free one; every process ends with its parent.
"""
