"""The demonstration: what the models in the box do with a few small files, and a report of it to look at."""

REPORT, COMPRESSED, RESTORED = "report.html", "compressed", "restored"
"""What the demo writes into its folder."""
