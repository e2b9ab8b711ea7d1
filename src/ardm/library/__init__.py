"""The library: one object with the verbs of the command line, for trained models and for networks of one's own."""
