"""Examines the node gpumon runs on: checks with a remedy each, measurements of the driver, a support bundle."""
