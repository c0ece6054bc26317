"""The only door from private to public."""
