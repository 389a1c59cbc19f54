"""Development only: what writes committed files from the tables in the code. Never part of the package."""
