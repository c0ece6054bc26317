"""What holds for every registered mechanism, and for one that a package outside of ours registers."""
