"""Networks in exact integers, which give the same values on every machine."""
