"""What earlier runs have shown, in one SQLite file: written by a thread of its own, read by whoever may."""

from gpumon.history.keeper import Keeper
from gpumon.history.place import file_in, folder_of, has_folder, known_salt, salt_in
from gpumon.history.store import HistoryError, Store

__all__ = ["HistoryError", "Keeper", "Store", "file_in", "folder_of", "has_folder", "known_salt", "salt_in"]
