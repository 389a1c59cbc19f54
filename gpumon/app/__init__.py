"""Wiring: sources, sampler, pipeline, publisher, server, signals and slow timers made into a daemon."""
