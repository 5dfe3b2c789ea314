"""One package for each client library."""
