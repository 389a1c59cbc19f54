"""Settings from a TOML file and the environment, checked as a whole."""

from gpumon.config.load import Config, load
from gpumon.config.settings import SETTINGS

__all__ = ["SETTINGS", "Config", "load"]
