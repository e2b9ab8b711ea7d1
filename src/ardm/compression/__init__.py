"""Users' files to compressed files and back, and `ardm.compress` and `ardm.decompress`."""
