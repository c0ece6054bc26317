"""Building blocks of laws: tables of integers, how they are made and how they are sampled from."""
