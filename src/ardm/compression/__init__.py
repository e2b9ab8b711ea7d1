"""Users' files to compressed ones and back: media, folders, commands' work, the two functions of the API."""
