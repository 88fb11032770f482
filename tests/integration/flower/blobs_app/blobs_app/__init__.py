"""Blobs, and nodes that raise, die or dawdle when they are told to."""
