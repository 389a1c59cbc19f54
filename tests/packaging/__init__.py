"""How gpumon is installed and run: unit, Debian package, virtual environment, container image."""
