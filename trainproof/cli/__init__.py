"""argv in, bytes and an exit code out. No decisions live here."""
