"""Embedded notifications: from what holds on this node to a message at the right person, without any other service."""
