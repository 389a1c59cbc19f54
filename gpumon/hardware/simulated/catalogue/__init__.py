"""The named scenarios by kind of node. Each file lists (scenario, expected verdict)."""
