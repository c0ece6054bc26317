"""Comparisons with the truth and with other methods. They may see private data, and nothing here keeps a guarantee."""
