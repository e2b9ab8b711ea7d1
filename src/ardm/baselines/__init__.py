"""Methods that ARDMs are compared with."""
