"""Pages of docs/ that are written from the tables in the code: every setting, every metric."""
