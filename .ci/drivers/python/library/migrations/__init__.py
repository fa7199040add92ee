"""Two migrations; the second one alters what the first has made."""
