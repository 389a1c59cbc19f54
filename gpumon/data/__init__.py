"""Packaged tables with a source for each row: cards, links, model shapes, measured bandwidths."""
