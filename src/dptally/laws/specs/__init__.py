"""The public halves of the mechanisms: what each is called, what it takes, and what it guarantees."""
