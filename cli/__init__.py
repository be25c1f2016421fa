"""The command line `tq-hw`; see docs/reference/cli.md."""
