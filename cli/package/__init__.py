"""The output of `tq-hw generate`: a folder that does not depend on tq-hw."""
