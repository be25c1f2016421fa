"""One file per command of `tq-hw`, named as the command."""
