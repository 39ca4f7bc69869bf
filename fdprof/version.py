"""The version, from the installed package's metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("fdprof")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "unknown"
