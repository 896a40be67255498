"""inboxd: drop a scan into a folder, readable text appears beside it, and SQL can tell what happened."""

__version__ = "0.1.0"
