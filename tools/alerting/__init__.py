"""Prometheus rules and runbooks, written from the tables of alerts and findings by `python -m tools.alerting`."""
