"""The exceptions gpumon raises: wrong configuration, wrong usage, unreadable files. Absence is a Fault instead."""


class GpumonError(Exception):
    """A problem to be told to the person in one sentence: place, value, what is allowed."""


class ConfigError(GpumonError):
    """One or more settings are wrong. `problems` holds one sentence for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class RecordingError(GpumonError):
    """A recording or log cannot be read: names the file, the line, and what was expected there."""
