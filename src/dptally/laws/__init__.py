"""The laws: P[reported value | true count], exact, certified, and free of private data."""
